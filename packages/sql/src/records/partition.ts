/** The number of partitions that keys are hashed to. It is part of the stored format: changing it requires a migration. */
export const partitionCount = 256

/** The partition of an ordering key, or of an id if there is no key. FNV-1a, so that every database and every version agrees. */
export function partitionOf(key: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < key.length; index += 1) {
    const unit = key.charCodeAt(index)
    // Most keys are ASCII; allocating bytes for them would cost more than the hash.
    if (unit > 0x7f) return partitionOfBytes(Buffer.from(key))
    hash = Math.imul(hash ^ unit, 0x01000193)
  }
  return fold(hash)
}

function partitionOfBytes(bytes: Uint8Array): number {
  let hash = 0x811c9dc5
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193)
  return fold(hash)
}

function fold(hash: number): number {
  // The low bits of FNV are its weaker ones.
  return ((hash >>> 16) ^ hash) & (partitionCount - 1)
}
