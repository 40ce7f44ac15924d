"""All stages of a broker's start."""

from typing import NamedTuple

from kraft.runtime.quorum.control_plane import ControlPlane
from kraft.runtime.stages.broker_core import BrokerCore
from kraft.runtime.stages.commits import Commits
from kraft.runtime.stages.data_path import DataPath
from kraft.runtime.stages.serving import Serving
from kraft.runtime.stages.storage import Storage
from kraft.runtime.upkeep.housekeeping import Housekeeping


class NodeParts(NamedTuple):
    """The stages of one node, each of which uses only those before it."""

    storage: Storage
    path: DataPath
    control: ControlPlane
    core: BrokerCore
    serving: Serving
    housekeeping: Housekeeping
    commits: Commits
