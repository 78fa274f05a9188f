import type { Claim } from '@ackord/outbox'

/** The key of a claimed row, and the token that fences it. The key is encoded in the token, because a row cannot be found by seq alone. */
export interface ClaimedRowKey {
  readonly state: string
  readonly destination: string
  readonly seq: string
  readonly token: string
}

export function toToken(lease: string, state: string, destination: string): string {
  return `${lease}/${state}/${destination}`
}

type Lease = Omit<ClaimedRowKey, 'seq'>

/** The row keys of claims, in order; `undefined` for tokens that are not from this store. */
export function toRowKeys(claims: readonly Claim[]): (ClaimedRowKey | undefined)[] {
  // Records that were claimed together have few tokens.
  const leases = new Map<string, Lease | undefined>()
  let last: string | undefined
  let lease: Lease | undefined
  return claims.map(({ id, token }) => {
    if (token !== last) {
      if (!leases.has(token)) leases.set(token, leaseOf(token))
      lease = leases.get(token)
      last = token
    }
    if (lease === undefined || !isSeq(id)) return undefined
    return { state: lease.state, destination: lease.destination, seq: id, token: lease.token }
  })
}

function leaseOf(token: string): Lease | undefined {
  const parts = /^([0-9a-f-]{36})\/(ready|waiting)\/(.+)$/s.exec(token)
  if (parts === null) return undefined
  const [, lease = '', state = '', destination = ''] = parts
  return { state, destination, token: lease }
}

/** Whether an id is valid for this store: a positive number that fits into 63 bits. */
export function isSeq(id: string): boolean {
  return /^[1-9]\d{0,18}$/.test(id) && (id.length < 19 || BigInt(id) < 2n ** 63n)
}

/** The order of rows by their numbers. */
export function bySeq(one: { readonly seq: string }, other: { readonly seq: string }): number {
  return compareSeq(one.seq, other.seq)
}

/** Compares numbers as strings, because they may exceed the precision of a JavaScript number. */
export function compareSeq(one: string, other: string): number {
  return one.length - other.length || (one < other ? -1 : one > other ? 1 : 0)
}
