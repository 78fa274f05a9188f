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

type Lease = Omit<ClaimedPlace, 'seq'>

/** The places of claims, in their order; `undefined` for what was never a claim of this store. */
export function toPlaces(claims: readonly Claim[]): (ClaimedPlace | undefined)[] {
  // What was claimed together has few tokens.
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

/** Whether an id can be one of this store: a positive number that fits into 63 bits. */
export function isSeq(id: string): boolean {
  return /^[1-9]\d{0,18}$/.test(id) && (id.length < 19 || BigInt(id) < 2n ** 63n)
}

/** Compares numbers as text, which may be larger than a JavaScript number can tell apart. */
export function compareSeq(one: string, other: string): number {
  return one.length - other.length || (one < other ? -1 : one > other ? 1 : 0)
}
