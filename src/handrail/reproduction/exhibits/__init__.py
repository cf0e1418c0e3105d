"""Everything that the report shows, in the paper's order, then what the paper does not have."""

from handrail.reproduction.exhibit import Exhibit
from handrail.reproduction.exhibits.appendix_a import APPENDIX_A
from handrail.reproduction.exhibits.appendix_b import APPENDIX_B
from handrail.reproduction.exhibits.beyond import BEYOND
from handrail.reproduction.exhibits.cartpole import CARTPOLE
from handrail.reproduction.exhibits.cartpole_regions import CARTPOLE_REGIONS
from handrail.reproduction.exhibits.constraint_tables import CONSTRAINT_TABLES, DISKS_TABLE
from handrail.reproduction.exhibits.efficiency import EFFICIENCY
from handrail.reproduction.exhibits.environments import ENVIRONMENTS
from handrail.reproduction.exhibits.lunar_lander import LUNAR_LANDER, LUNAR_LANDER_LOSS
from handrail.reproduction.exhibits.matrices import MATRICES
from handrail.reproduction.exhibits.q_learning import (
    Q_LEARNING_CARTPOLE,
    Q_LEARNING_LUNAR_LANDER,
)
from handrail.reproduction.exhibits.time import TIME

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
