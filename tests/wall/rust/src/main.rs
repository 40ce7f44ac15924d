//! Copy one topic to another with rdkafka: `copy BOOTSTRAP SOURCE TARGET GROUP DIRECTORY`.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

const STEP: Duration = Duration::from_millis(100);
const BATCH: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let (bootstrap, source, target, group) = (&given[0], &given[1], &given[2], &given[3]);
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .create()?;
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .create()?;
    consumer.subscribe(&[source])?;
    let mut pending = 0;
    loop {
        let received = consumer.poll(STEP);
        let idle = received.is_none();
        match received {
            Some(Ok(message)) => {
                let mut value = b"seen ".to_vec();
                value.extend_from_slice(message.payload().unwrap_or_default());
                let record = BaseRecord::to(target).key(message.key().unwrap_or_default()).payload(&value);
                producer.send(record).map_err(|(error, _)| error)?;
                consumer.store_offset_from_message(&message)?;
                pending += 1;
            }
            Some(Err(error)) => eprintln!("{error}"),
            None => {}
        }
        if pending >= BATCH || (idle && pending > 0) {
            producer.flush(Duration::from_secs(60))?;
            if let Err(error) = consumer.commit_consumer_state(CommitMode::Sync) {
                eprintln!("{error}");
            }
            pending = 0;
        }
    }
}
