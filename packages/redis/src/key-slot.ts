import type { RedisArgument } from './port.ts'

const slots = 16_384

const table: readonly number[] = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff
  return crc
})

/** The slot of a cluster that a key is in, as CLUSTER KEYSLOT tells it. The key is the one the server sees, with any prefix. */
export function keySlot(key: RedisArgument): number {
  const bytes = typeof key === 'string' ? Buffer.from(key) : key
  const tagged = tagOf(bytes)
  let crc = 0
  for (const byte of tagged) crc = ((crc << 8) & 0xffff) ^ (table[((crc >> 8) ^ byte) & 0xff] as number)
  return crc % slots
}

/** What is between the first `{` and the next `}`, unless there is nothing between them. */
function tagOf(key: Buffer): Buffer {
  const open = key.indexOf('{')
  if (open === -1) return key
  const close = key.indexOf('}', open + 1)
  return close <= open + 1 ? key : key.subarray(open + 1, close)
}
