"""Everything that the report shows, in the paper's order, then what the paper does not have."""

from paper.exhibit import Exhibit
from paper.exhibits.cartpole import CARTPOLE
from paper.exhibits.cartpole_regions import CARTPOLE_REGIONS
from paper.exhibits.constraint_tables import CONSTRAINT_TABLES, DISKS_TABLE
from paper.exhibits.disks import DISKS
from paper.exhibits.efficiency import EFFICIENCY
from paper.exhibits.environments import ENVIRONMENTS
from paper.exhibits.exact import EXACT_AND_CERTIFIED
from paper.exhibits.kernel import KERNEL
from paper.exhibits.lunar_lander import LUNAR_LANDER, LUNAR_LANDER_LOSS
from paper.exhibits.prediction import PREDICTION
from paper.exhibits.q_learning import Q_LEARNING_CARTPOLE, Q_LEARNING_LUNAR_LANDER
from paper.exhibits.spread import SPREAD
from paper.exhibits.update_times import UPDATE_TIMES

EXHIBITS: tuple[Exhibit, ...] = (
    KERNEL,
    UPDATE_TIMES,
    ENVIRONMENTS,
    *CARTPOLE,
    SPREAD,
    *CARTPOLE_REGIONS,
    Q_LEARNING_CARTPOLE,
    LUNAR_LANDER,
    Q_LEARNING_LUNAR_LANDER,
    LUNAR_LANDER_LOSS,
    EFFICIENCY,
    PREDICTION,
    DISKS_TABLE,
    *DISKS,
    *CONSTRAINT_TABLES,
    EXACT_AND_CERTIFIED,
)
