"""Everything that the report shows, in the paper's order, then what the paper does not have."""

from paper.exhibit import Exhibit
from paper.exhibits.appendix_a import APPENDIX_A
from paper.exhibits.appendix_b import APPENDIX_B
from paper.exhibits.beyond import BEYOND
from paper.exhibits.cartpole import CARTPOLE
from paper.exhibits.cartpole_regions import CARTPOLE_REGIONS
from paper.exhibits.constraint_tables import CONSTRAINT_TABLES, DISKS_TABLE
from paper.exhibits.efficiency import EFFICIENCY
from paper.exhibits.environments import ENVIRONMENTS
from paper.exhibits.lunar_lander import LUNAR_LANDER, LUNAR_LANDER_LOSS
from paper.exhibits.matrices import MATRICES
from paper.exhibits.q_learning import Q_LEARNING_CARTPOLE, Q_LEARNING_LUNAR_LANDER
from paper.exhibits.time import TIME

EXHIBITS: tuple[Exhibit, ...] = (
    MATRICES,
    TIME,
    ENVIRONMENTS,
    *CARTPOLE,
    *CARTPOLE_REGIONS,
    Q_LEARNING_CARTPOLE,
    LUNAR_LANDER,
    Q_LEARNING_LUNAR_LANDER,
    LUNAR_LANDER_LOSS,
    APPENDIX_A,
    DISKS_TABLE,
    *APPENDIX_B,
    *CONSTRAINT_TABLES,
    BEYOND,
    EFFICIENCY,
)
