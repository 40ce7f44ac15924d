// KafkaJS behind the two commands of ../go/main.go:
//
//   node client.mjs produce BOOTSTRAP TOPIC CODEC COUNT RATE
//   node client.mjs consume BOOTSTRAP TOPIC GROUP
//
// Of Kafka's codecs it has only gzip.
import { readFileSync } from 'node:fs'

import kafkajs from 'kafkajs'

const { CompressionTypes, Kafka, logLevel } = kafkajs
const [command, bootstrap, topic, ...rest] = process.argv.slice(2)
// The environment of ../go/security.go.
const { CLIENT_CA, CLIENT_MECHANISM, CLIENT_USER, CLIENT_PASSWORD, CLIENT_TOKEN } = process.env
const security = !CLIENT_CA ? {} : {
  // Before the end of a session. With its default, 10 s, it begins again at once where sessions last no longer.
  reauthenticationThreshold: 3000,
  ssl: { ca: [readFileSync(CLIENT_CA, 'utf-8')] },
  sasl: CLIENT_MECHANISM === 'OAUTHBEARER'
    ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: CLIENT_TOKEN }) }
    : { mechanism: 'scram-sha-512', username: CLIENT_USER, password: CLIENT_PASSWORD },
}
const kafka = new Kafka({
  ...security,
  clientId: 'kafkajs', brokers: bootstrap.split(','), logLevel: logLevel.NOTHING,
  retry: { retries: 600, initialRetryTime: 100, maxRetryTime: 100 },
})
const inputEnds = new Promise((resolve) => process.stdin.on('end', resolve).resume())

async function produce(codec, count, rate) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const compression = codec === 'gzip' ? CompressionTypes.GZIP : CompressionTypes.None
  let stopped = false
  inputEnds.then(() => { stopped = true })
  const begin = Date.now()
  for (let number = 0; number < count && !stopped; number++) {
    const pause = begin + (number * 1000) / rate - Date.now()
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause))
    // One record per call. When a call sends to several brokers and the leader of a part dies, KafkaJS loses that part
    // if its next leader has already answered the call, and reports that all records are stored.
    const value = String(number)
    const [told] = await producer.send({
      topic, acks: -1, compression, messages: [{ key: value, value, headers: { number: value } }],
    })
    process.stdout.write(`${told.partition} ${told.baseOffset} ${value}\n`)
  }
  await producer.disconnect()
}

async function consume(group) {
  const consumer = kafka.consumer({ groupId: group })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      process.stdout.write(`${partition} ${message.offset} ${message.key} ${message.headers.number} ${message.value}\n`)
    },
  })
  await inputEnds
  await consumer.disconnect()
}

await (command === 'produce' ? produce(rest[0], Number(rest[1]), Number(rest[2])) : consume(rest[0]))
process.exit(0)
