import type { Claim } from '@ackord/outbox'
import { type DestinationStream, type DestinationStreams, readToken } from './destination-stream.ts'

/** A claim, and the entry of its record. */
export interface StreamClaim<C extends Claim> {
  readonly claim: C
  /** The id of its entry in the stream. */
  readonly entry: string
  /** The delivery count of the entry at the time of the claim. */
  readonly delivery: number
}

/** The claims of one relay on one stream, in the order of the stream. */
export interface StreamClaimGroup<C extends Claim> {
  readonly stream: DestinationStream
  readonly consumer: string
  readonly claims: StreamClaim<C>[]
}

/** Groups claims by their stream and their relay. `lost`: those that this outbox cannot have made. */
export function claimsByStream<C extends Claim>(
  streams: DestinationStreams,
  claims: readonly C[],
): { readonly groups: readonly StreamClaimGroup<C>[]; readonly lost: Set<C> } {
  const groups = new Map<string, StreamClaimGroup<C>>()
  const lost = new Set<C>()
  // Most claims are in the group of the one before.
  let group: StreamClaimGroup<C> | undefined
  let token: string | undefined
  let delivery = 0
  for (const claim of claims) {
    const { id } = claim
    if (group === undefined || claim.token !== token || !id.endsWith(group.stream.suffix)) {
      const read = readToken(claim.token)
      const found = streams.find(id)
      if (read === undefined || found === undefined) {
        lost.add(claim)
        continue
      }
      const name = `${read.consumer}${found.stream.suffix}`
      group = groups.get(name) ?? { stream: found.stream, consumer: read.consumer, claims: [] }
      groups.set(name, group)
      token = claim.token
      delivery = read.delivery
    }
    group.claims.push({ claim, entry: id.slice(0, -group.stream.suffix.length), delivery })
  }
  for (const { claims: own } of groups.values()) if (!isInOrder(own)) own.sort((one, other) => compareEntries(one.entry, other.entry))
  return { groups: [...groups.values()], lost }
}

/** The arguments of the scripts: the consumer, the ids, a word for each or one for all, and the arguments of the words. */
export function argumentsOf<C extends Claim>(
  { consumer, claims }: StreamClaimGroup<C>,
  wordsOf: (claim: C) => readonly string[],
): readonly string[] {
  const words: string[] = []
  const more: string[] = []
  let ids = ''
  let same = true
  for (const { claim, entry, delivery } of claims) {
    const [letter, ...others] = wordsOf(claim)
    const word = `${delivery}${letter}`
    same &&= words.length === 0 || word === words[0]
    words.push(word)
    for (const other of others) more.push(other)
    ids += ` ${entry}`
  }
  return [consumer, ids, same ? (words[0] ?? '') : words.join(' '), ...more]
}

function isInOrder<C extends Claim>(claims: readonly StreamClaim<C>[]): boolean {
  for (let index = 1; index < claims.length; index += 1) {
    if (compareEntries((claims[index - 1] as StreamClaim<C>).entry, (claims[index] as StreamClaim<C>).entry) > 0) return false
  }
  return true
}

/** Compares ids in the order of the stream: two numbers each, without leading zeros. */
function compareEntries(one: string, other: string): number {
  // A dash sorts before all digits, so that strings of the same length compare as their numbers do.
  if (one.length === other.length) return one < other ? -1 : one > other ? 1 : 0
  const [ms = '', seq = ''] = one.split('-')
  const [otherMs = '', otherSeq = ''] = other.split('-')
  return compareNumbers(ms, otherMs) || compareNumbers(seq, otherSeq)
}

function compareNumbers(one: string, other: string): number {
  return one.length - other.length || (one < other ? -1 : one > other ? 1 : 0)
}
