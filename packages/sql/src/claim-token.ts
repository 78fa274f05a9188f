import type { Claim } from '@ackord/outbox'

/** Where a claimed row is, and the token that fences it. The row's key is hidden in the token: a row is not found by seq alone. */
export interface ClaimedPlace {
  readonly state: string
  readonly destination: string
  readonly seq: string
  readonly token: string
}

export function toToken(lease: string, state: string, destination: string): string {
  return `${lease}/${state}/${destination}`
}

/** `undefined` for what was never a claim of this store. */
export function toPlace({ id, token }: Claim): ClaimedPlace | undefined {
  const parts = /^([0-9a-f-]{36})\/(ready|waiting)\/(.+)$/s.exec(token)
  if (parts === null || !isSeq(id)) return undefined
  const [, lease = '', state = '', destination = ''] = parts
  return { state, destination, seq: id, token: lease }
}

/** Whether an id can be one of this store: a positive number that fits into 63 bits. */
export function isSeq(id: string): boolean {
  return /^[1-9]\d{0,18}$/.test(id) && BigInt(id) < 2n ** 63n
}
