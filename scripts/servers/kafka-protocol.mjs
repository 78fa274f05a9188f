// @ts-check
import { parseAddress, splitUrls } from './address.mjs'
import { Wire } from './wire.mjs'

/** Keys of requests in Kafka's protocol. */
const metadataKey = 3
const apiVersionsKey = 18
const createTopicsKey = 19

/**
 * Requests the protocol versions, the only request that every broker answers without a login.
 *
 * @param {string} url
 */
export async function greetKafka(url) {
  await requestKeys(url)
}

/**
 * Whether the URL names a real broker. The mock cluster of librdkafka does not offer the request that creates topics. A broker
 * that does not answer is not a real one.
 *
 * @param {string | undefined} urls
 * @returns {Promise<boolean>}
 */
export async function isRealKafka(urls) {
  const [first] = splitUrls(urls ?? '')
  if (first === undefined) return false
  return await requestKeys(first).then(
    (keys) => keys.includes(createTopicsKey),
    () => false,
  )
}

/**
 * The number of brokers that can be used. A broker answers before it has registered with the controller, and until then topics
 * cannot be created.
 *
 * @param {string} url
 * @returns {Promise<number>}
 */
export async function countKafkaBrokers(url) {
  // No topics: an empty list.
  const answer = await request(url, metadataKey, 1, Buffer.alloc(4))
  return answer.readInt32BE(0)
}

/**
 * @param {string} url
 * @returns {Promise<number[]>} the keys of the requests that the broker answers
 */
async function requestKeys(url) {
  const answer = await request(url, apiVersionsKey, 0, Buffer.alloc(0))
  if (answer.length < 6 || answer.readInt16BE(0) !== 0) throw new Error('it does not speak the protocol of Kafka')
  const keys = []
  // Each entry is a key, its lowest and its highest version.
  for (let at = 6; at + 6 <= answer.length; at += 6) keys.push(answer.readInt16BE(at))
  return keys
}

const correlation = 1
const largestAnswer = 1_000_000

/**
 * @param {string} url
 * @param {number} key
 * @param {number} version
 * @param {Buffer} body
 * @returns {Promise<Buffer>} the body of the answer
 */
async function request(url, key, version, body) {
  const wire = await Wire.open(parseAddress(url, 9092))
  try {
    const head = Buffer.alloc(14)
    head.writeInt32BE(10 + body.length, 0)
    head.writeInt16BE(key, 4)
    head.writeInt16BE(version, 6)
    head.writeInt32BE(correlation, 8)
    head.writeInt16BE(-1, 12) // no client id
    wire.write(head, body)
    const answer = await wire.read(8)
    const length = answer.readInt32BE(0)
    if (answer.readInt32BE(4) !== correlation || length < 4 || length > largestAnswer) {
      throw new Error('it does not speak the protocol of Kafka')
    }
    return await wire.read(length - 4)
  } finally {
    wire.close()
  }
}
