"""Copy one topic to another with Bytewax: `with_bytewax.py BOOTSTRAP SOURCE TARGET GROUP DIRECTORY`.

Bytewax keeps positions in its own recovery store, not in a group.
"""

import sys
from datetime import timedelta
from pathlib import Path

from bytewax import operators
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main

bootstrap, source, target, _, directory = sys.argv[1:]
store = Path(directory) / "recovery"
if not store.exists():
    store.mkdir(parents=True)
    init_db_dir(store, 1)
flow = Dataflow("copy")
received = kafka.input("received", flow, brokers=bootstrap.split(","), topics=[source])
copied = operators.map("copy", received.oks, lambda each: KafkaSinkMessage(each.key, b"seen " + each.value))
kafka.output("sent", copied, brokers=bootstrap.split(","), topic=target)
cluster_main(flow, [], 0, epoch_interval=timedelta(seconds=1), recovery_config=RecoveryConfig(str(store)))
