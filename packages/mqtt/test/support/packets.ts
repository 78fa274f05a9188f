/** The control packets of MQTT that tests recognise, by the upper half of their first byte. */
export const packetTypes = { publish: 3, puback: 4, pubrec: 5, pubrel: 6 } as const

export interface WirePacket {
  readonly type: number
  /** The packet after its fixed header. */
  readonly body: Buffer
}

/** The packets in a chunk that a client has sent. A chunk starts with a packet; the last packet may continue in the next chunk. */
export function packetsIn(bytes: Buffer): WirePacket[] {
  const found: WirePacket[] = []
  for (let at = 0; at < bytes.length; ) {
    const type = bytes.readUInt8(at) >> 4
    let [length, shift] = [0, 0]
    at += 1
    for (let more = true; more && at < bytes.length; at += 1, shift += 7) {
      const digit = bytes.readUInt8(at)
      length |= (digit & 0x7f) << shift
      more = digit >= 0x80
    }
    found.push({ type, body: bytes.subarray(at, at + length) })
    at += length
  }
  return found
}
