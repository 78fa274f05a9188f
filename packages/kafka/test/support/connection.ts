import { connect, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { type FaultProxy, startFaultProxy } from '@ackord/testkit'
import { type Admin, Kafka, type KafkaConfig, logLevel } from 'kafkajs'
import { parseAddress, splitUrls } from '../../../../scripts/servers/address.mjs'
import { isRealKafka } from '../../../../scripts/servers/kafka-protocol.mjs'

export const kafkaUrl: string = process.env['KAFKA_URL'] || 'kafka://127.0.0.1:9092'

/** The mock cluster of librdkafka offers fewer requests than a broker. */
export const isReal: boolean = await isRealKafka(kafkaUrl)

/** The connection that URLs describe, separated by commas: `kafka+ssl:` is Kafka over TLS; user and password are used for SASL PLAIN. */
function connectionOf(urls: string): Pick<KafkaConfig, 'brokers' | 'ssl' | 'sasl'> {
  const addresses = splitUrls(urls).map((url) => parseAddress(url, 9092))
  const [{ secure = false, user, password } = {}] = addresses
  return {
    brokers: addresses.map(({ host, port }) => addressText(host, port)),
    ssl: secure,
    ...(user !== undefined && password !== undefined && { sasl: { mechanism: 'plain', username: user, password } }),
  }
}

/** A client with few and quick retries, whose open sockets are added to the set. */
export function createClient(urls: string, config: Partial<KafkaConfig> = {}, sockets: Set<Socket> = new Set()): Kafka {
  return new Kafka({
    clientId: 'ackord-test',
    ...connectionOf(urls),
    logLevel: logLevel.NOTHING,
    retry: { retries: 2, initialRetryTime: 50 },
    socketFactory({ host, port, ssl, onConnect }) {
      const socket = openSocket(host, port, ssl, onConnect)
      sockets.add(socket)
      return socket.on('close', () => sockets.delete(socket))
    },
    ...config,
  })
}

type SocketOptions = Parameters<NonNullable<KafkaConfig['socketFactory']>>[0]

function openSocket(host: string, port: number, ssl: SocketOptions['ssl'], onConnect: () => void): Socket {
  if (!ssl) return connect({ host, port }, onConnect)
  return connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }), ...ssl }, onConnect)
}

/** Proxies in front of all brokers of a cluster, and a client that connects through them only. */
export interface ProxiedKafka extends AsyncDisposable {
  readonly client: Kafka
  readonly proxies: readonly FaultProxy[]
}

/** The addresses that the cluster advertises are those of its brokers, so each needs a proxy of its own. The connection itself must not be over TLS. */
export async function openProxied(urls: string, config: Partial<KafkaConfig> = {}): Promise<ProxiedKafka> {
  const admin = createClient(urls).admin()
  await admin.connect()
  const { brokers } = await admin.describeCluster()
  await admin.disconnect()
  const proxies = new Map<string, FaultProxy>()
  for (const { host, port } of brokers) proxies.set(addressText(host, port), await startFaultProxy(`kafka://${addressText(host, port)}`))
  const [first] = proxies.values()
  if (first === undefined) throw new Error('The cluster has no broker.')
  const client = createClient(urls, {
    ...config,
    // A bootstrap address may be another name of any broker.
    socketFactory: ({ host, port, onConnect }) =>
      connect({ host: '127.0.0.1', port: (proxies.get(addressText(host, port)) ?? first).port }, onConnect),
  })
  return {
    client,
    proxies: [...proxies.values()],
    async [Symbol.asyncDispose]() {
      for (const proxy of proxies.values()) await proxy[Symbol.asyncDispose]()
    },
  }
}

/** Creates topics with four partitions, as the mock cluster does when their metadata is requested. */
export async function createTopics(admin: Admin, topics: readonly string[], options: { readonly isReal: boolean }): Promise<void> {
  if (!options.isReal) {
    await admin.fetchTopicMetadata({ topics: [...topics] })
    return
  }
  await admin.createTopics({ topics: topics.map((topic) => ({ topic, numPartitions: 4 })), waitForLeaders: true })
}

/** The mock cluster cannot delete topics; it does not outlive the run. */
export async function deleteTopics(admin: Admin, topics: readonly string[], options: { readonly isReal: boolean }): Promise<void> {
  if (options.isReal && topics.length > 0) await admin.deleteTopics({ topics: [...topics] })
}

function addressText(host: string, port: number): string {
  return `${isIP(host) === 6 ? `[${host}]` : host}:${port}`
}
