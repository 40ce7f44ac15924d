"""Load generator for any server of Kafka's protocol, and its measurements: the code behind `kraft bench`."""
