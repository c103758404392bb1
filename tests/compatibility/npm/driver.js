// Does with stock KafkaJS what stdin tells it, so that one process serves many tests.
//
// A command is a line of fields separated by tabs; drivers.py has the other end and says what the fields mean. The answer is any number
// of lines "= field...", then "done", or "failed", the name of the error and its message. Bytes are base64, null is "-".
'use strict'

const path = require('node:path')
const readline = require('node:readline')
const { createRequire } = require('node:module')

const [bootstrap, installed] = process.argv.slice(2)
const requireInstalled = createRequire(path.join(installed, 'package.json'))
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = requireInstalled('kafkajs')
// KafkaJS consumes only as a member of a group. What its consumer reads with below that is used as it is.
const Cluster = requireInstalled('kafkajs/src/cluster')
const socketFactory = requireInstalled('kafkajs/src/network/socketFactory')

const NULL = '-'
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const RESOURCES = { TOPIC: ConfigResourceTypes.TOPIC, BROKER: ConfigResourceTypes.BROKER }

CompressionCodecs[CompressionTypes.Snappy] = requireInstalled('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => {
  const { compressFrame, decompressFrame } = requireInstalled('lz4-napi')
  return { compress: encoder => compressFrame(encoder.buffer), decompress: decompressFrame }
}
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from((await zstd()).compress(encoder.buffer)),
  decompress: async buffer => Buffer.from((await zstd()).decompress(buffer)),
})
const zstd = () => new Promise(resolve => requireInstalled('zstd-codec').ZstdCodec.run(codec => resolve(new codec.Streaming())))

const settingsOfEveryClient = {
  clientId: 'compatibility',
  brokers: bootstrap.split(','),
  connectionTimeout: 5000,
  requestTimeout: 10000,
  enforceRequestTimeout: true,
  retry: { retries: 2 },
}
const kafka = new Kafka({ ...settingsOfEveryClient, logLevel: logLevel.WARN })
const admin = kafka.admin()
const members = new Map()
const transactions = new Map()
let staying

const commands = {
  async produce(topic, settings, ...records) {
    const { 'compression.type': codec = 'none', acks = 'all', 'enable.idempotence': idempotent = 'false' } = pairs(settings)
    const producer = kafka.producer({ idempotent: idempotent === 'true', maxInFlightRequests: 1 })
    await producer.connect()
    try {
      const messages = records.map(messageToSend)
      const sent = await producer.send({ topic, messages, compression: CODECS[codec], acks: acks === 'all' ? -1 : Number(acks) })
      for (const { partition, baseOffset, logAppendTime } of sent) tell(partition, baseOffset, logAppendTime)
    } finally {
      await producer.disconnect()
    }
  },

  async consume(topic, partition, where, count) {
    const cluster = new Cluster({ ...settingsOfEveryClient, logger: kafka.logger(), socketFactory: socketFactory(), metadataMaxAge: 300000 })
    await cluster.connect()
    try {
      await cluster.addTargetTopic(topic)
      const { leader } = cluster.findTopicPartitionMetadata(topic).find(({ partitionId }) => partitionId === Number(partition))
      const broker = await cluster.findBroker({ nodeId: leader })
      await fetchRecords(broker, topic, Number(partition), where === 'beginning' ? 0 : Number(where), Number(count))
    } finally {
      await cluster.disconnect()
    }
  },

  // A producer that stays, told nothing but where the brokers are.
  async stay(topic) {
    const producer = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING }).producer()
    await producer.connect()
    staying = { producer, topic }
  },

  async 'send-on'(from, to) {
    const { producer, topic } = staying
    for (let number = Number(from); number < Number(to); number++) {
      const [{ baseOffset }] = await producer.send({ topic, messages: [{ partition: 0, value: String(number) }] })
      tell(baseOffset, number)
    }
  },

  // Members of groups: each reads on by itself and commits what it has read.
  async join(name, topic, settings) {
    const { 'group.id': groupId, ...timing } = pairs(settings)
    const [sessionTimeout, heartbeatInterval] = ['session.timeout.ms', 'heartbeat.interval.ms'].map(each => Number(timing[each]))
    const client = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING })
    // Few retries: it begins anew instead, which with those it has by default it does only after 15 seconds without its coordinator.
    const consumer = client.consumer({ groupId, sessionTimeout, heartbeatInterval, maxWaitTimeInMs: 200, retry: { retries: 2 } })
    const member = { consumer, owned: [], rebalances: 0, read: [], failure: null }
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      member.rebalances++
      member.owned = payload.memberAssignment[topic] ?? []
    })
    consumer.on(consumer.events.REBALANCING, () => (member.owned = []))
    consumer.on(consumer.events.CRASH, ({ payload }) => (member.failure = payload.restart ? null : payload.error))
    members.set(name, member)
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ eachMessage: async ({ message }) => void member.read.push(message.value.toString()) })
  },

  async look(name) {
    const { owned, rebalances, read, failure } = members.get(name)
    if (failure) throw failure
    tell(owned.join(' '), rebalances, read.join(' '))
  },

  async leave(name) {
    await members.get(name).consumer.disconnect()
    await commands.look(name)
    members.delete(name)
  },

  // Producers with a transactional id, each with a consumer whose offsets go along once it has joined a group.
  async 'transact-open'(name, settings) {
    const { 'transactional.id': transactionalId, 'transaction.timeout.ms': timeout } = pairs(settings)
    const client = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING })
    const producer = client.producer({ transactionalId, transactionTimeout: Number(timeout), maxInFlightRequests: 1, idempotent: true })
    await producer.connect()
    // A transaction is begun at once, for that is when KafkaJS asks for its id; the first `begin` is given it.
    transactions.set(name, { client, producer, ready: await producer.transaction(), joins: 0, read: [], positions: new Map() })
  },

  async 'transact-begin'(name) {
    const one = transactions.get(name)
    one.transaction = one.ready ?? (await one.producer.transaction())
    one.ready = null
  },

  async 'transact-send'(name, topic, partition, value) {
    await transactions.get(name).transaction.send({ topic, messages: [{ partition: Number(partition), value }] })
  },

  async 'transact-flush'() {},

  async 'transact-commit'(name) {
    const one = transactions.get(name)
    refuseSecondJoin(one)
    await one.transaction.commit()
  },

  async 'transact-abort'(name) {
    await transactions.get(name).transaction.abort()
  },

  async 'transact-join'(name, topic, settings) {
    const one = transactions.get(name)
    one.topic = topic
    one.groupId = pairs(settings)['group.id']
    one.consumer = one.client.consumer({ groupId: one.groupId, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTimeInMs: 200, retry: { retries: 2 } })
    // KafkaJS tells the name of the group only (it is older than KIP-447), so no broker refuses offsets of a membership that is over.
    one.consumer.on(one.consumer.events.GROUP_JOIN, () => one.joins++)
    await one.consumer.connect()
    await one.consumer.subscribe({ topics: [topic], fromBeginning: true })
    const eachMessage = async ({ partition, message }) => void one.read.push([partition, message.offset, message.value.toString()])
    await one.consumer.run({ autoCommit: false, eachMessage })
  },

  async 'transact-poll'(name) {
    const one = transactions.get(name)
    refuseSecondJoin(one)
    if (one.read.length === 0) await new Promise(resolve => setTimeout(resolve, 200))
    for (const [partition, offset, value] of one.read.splice(0)) {
      tell(partition, offset, value)
      one.positions.set(partition, String(Number(offset) + 1))
    }
  },

  async 'transact-offsets'(name) {
    const { transaction, topic, groupId, positions } = transactions.get(name)
    const partitions = [...positions].map(([partition, offset]) => ({ partition, offset }))
    positions.clear()
    await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic, partitions }] })
  },

  async 'transact-rewind'(name) {
    const { consumer, topic, groupId, positions, read } = transactions.get(name)
    positions.clear()
    const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
    for (const { partition, offset } of partitions) consumer.seek({ topic, partition, offset: String(Math.max(Number(offset), 0)) })
    read.splice(0)
  },

  async 'transact-close'(name) {
    const { producer, consumer } = transactions.get(name)
    transactions.delete(name)
    await producer.disconnect()
    await consumer?.disconnect()
  },

  async positions(topic, partition, _settings, ...times) {
    const { low, high } = (await admin.fetchTopicOffsets(topic)).find(each => each.partition === Number(partition))
    tell('beginning', low, NULL)
    tell('end', high, NULL)
    for (const time of times) {
      const found = await admin.fetchTopicOffsetsByTimestamp(topic, Number(time))
      tell(time, found.find(each => each.partition === Number(partition)).offset, NULL)
    }
  },

  async create(topic, numPartitions, configs) {
    const configEntries = Object.entries(pairs(configs)).map(([name, value]) => ({ name, value }))
    const created = await admin.createTopics({ topics: [{ topic, numPartitions: Number(numPartitions), configEntries }] })
    if (!created) throw new Error('the topic exists')
  },

  async topics() {
    tell(...(await admin.listTopics()).sort())
  },

  async describe(topic) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    for (const { partitionId, leader, replicas, isr } of topics[0].partitions.sort((a, b) => a.partitionId - b.partitionId)) {
      tell(partitionId, leader, replicas.join(','), isr.join(','))
    }
  },

  async delete(...topics) {
    await admin.deleteTopics({ topics, timeout: 10000 })
  },

  async cluster() {
    const { clusterId, controller, brokers } = await admin.describeCluster()
    tell('cluster', clusterId)
    tell('controller', controller)
    for (const { nodeId, host, port } of brokers) tell('broker', nodeId, `${host}:${port}`)
  },

  async grow(topic, count) {
    await admin.createPartitions({ topicPartitions: [{ topic, count: Number(count) }], timeout: 10000 })
  },

  async settings(type, name) {
    const { resources } = await admin.describeConfigs({ resources: [{ type: RESOURCES[type], name }], includeSynonyms: false })
    for (const { configName, configValue, isDefault, readOnly } of resources[0].configEntries) {
      tell(configName, configValue ?? NULL, isDefault, readOnly)
    }
  },

  async configure(type, name, ...operations) {
    const configEntries = operations.map(operation => operation.replace(/^SET /, '').split('=')).map(([name, value]) => ({ name, value }))
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: RESOURCES[type], name, configEntries }] })
  },

  async 'delete-records'(topic, partition, offset) {
    await admin.fetchTopicOffsets(topic) // KafkaJS looks for the leader in what it knows already, and here it learns it
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: Number(partition), offset }] })
  },
}

async function fetchRecords(broker, topic, partition, from, wanted) {
  const deadline = Date.now() + 20000
  for (let got = 0, fetchOffset = from; got < wanted; ) {
    if (Date.now() > deadline) throw new Error(`${got} of ${wanted} records came`)
    const request = { partition, fetchOffset: String(fetchOffset), maxBytes: 1048576, currentLeaderEpoch: -1, logStartOffset: -1 }
    const { responses } = await broker.fetch({ isolationLevel: 1, maxWaitTime: 500, topics: [{ topic, partitions: [request] }] })
    for (const { offset, timestamp, key, value, headers } of responses[0].partitions[0].messages) {
      if (Number(offset) < fetchOffset) continue
      tell(offset, timestamp, 'CreateTime', text(key), text(value), headersText(headers))
      fetchOffset = Number(offset) + 1
      got++
    }
  }
}

// A consumer that joins anew reads from what is committed, so again what is in the transaction at hand, and maybe in the last one.
function refuseSecondJoin({ joins }) {
  if (joins > 1) throw Object.assign(new Error('the consumer has joined anew'), { name: 'KafkaJSJoinedAnew' })
}

function messageToSend(field) {
  const [partition, timestamp, key, value, joined] = field.split(';')
  const headers = {}
  for (const header of joined === '' ? [] : joined.split(',')) {
    const [name, content] = header.split(':')
    ;(headers[bytes(name).toString()] ??= []).push(bytes(content))
  }
  return { partition: partition === NULL ? undefined : Number(partition), timestamp, key: bytes(key), value: bytes(value), headers }
}

function headersText(headers) {
  const flat = Object.entries(headers).flatMap(([name, values]) => [values].flat().map(value => [Buffer.from(name), value]))
  return flat.map(([name, value]) => `${text(name)}:${text(value)}`).join(',')
}

const pairs = settings => Object.fromEntries(settings === '' ? [] : settings.split(' ').map(pair => pair.split('=')))
const bytes = field => (field === NULL ? null : Buffer.from(field, 'base64'))
const text = buffer => (buffer == null ? NULL : buffer.toString('base64'))
const say = line => process.stdout.write(`${line}\n`)
const tell = (...fields) => say(`= ${fields.join('\t')}`)

async function main() {
  await admin.connect()
  say('listening')
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...fields] = line.split('\t')
    try {
      await commands[command](...fields)
      say('done')
    } catch (error) {
      const message = [error, ...(error.errors ?? [])].map(each => each.type ?? each.message).join('; ')
      say(`failed\t${error.name}\t${message.replace(/\s+/g, ' ')}`)
    }
  }
  await admin.disconnect()
}

main()
