import type { Claim } from '@ackord/outbox'
import { type Lane, type Lanes, readToken } from './destination-stream.ts'

/** A claim, and where its record is. */
export interface HeldClaim<C extends Claim> {
  readonly claim: C
  /** The id of its entry in the stream. */
  readonly entry: string
  /** How often that had been delivered. */
  readonly delivery: number
}

/** What one relay claimed in one lane, in the order of the stream. */
export interface Hand<C extends Claim> {
  readonly lane: Lane
  readonly consumer: string
  readonly held: HeldClaim<C>[]
}

/** Sorts claims by where they are. `lost`: those that cannot be of this outbox. */
export function sortIntoHands<C extends Claim>(
  lanes: Lanes,
  claims: readonly C[],
): { readonly hands: readonly Hand<C>[]; readonly lost: Set<C> } {
  const hands = new Map<string, Hand<C>>()
  const lost = new Set<C>()
  // Most are like the one before them.
  let hand: Hand<C> | undefined
  let token: string | undefined
  let delivery = 0
  for (const claim of claims) {
    const { id } = claim
    if (hand === undefined || claim.token !== token || !id.endsWith(hand.lane.suffix)) {
      const read = readToken(claim.token)
      const place = lanes.find(id)
      if (read === undefined || place === undefined) {
        lost.add(claim)
        continue
      }
      const name = `${read.consumer}${place.lane.suffix}`
      hand = hands.get(name) ?? { lane: place.lane, consumer: read.consumer, held: [] }
      hands.set(name, hand)
      token = claim.token
      delivery = read.delivery
    }
    hand.held.push({ claim, entry: id.slice(0, -hand.lane.suffix.length), delivery })
  }
  for (const { held } of hands.values()) if (!isInOrder(held)) held.sort((one, other) => compareEntries(one.entry, other.entry))
  return { hands: [...hands.values()], lost }
}

/** A script is for one slot. */
export function groupByTag<C extends Claim>(hands: readonly Hand<C>[]): ReadonlyMap<string, readonly Hand<C>[]> {
  const byTag = new Map<string, Hand<C>[]>()
  for (const hand of hands) {
    const { tag } = hand.lane
    byTag.set(tag, [...(byTag.get(tag) ?? []), hand])
  }
  return byTag
}

/** As the scripts want them: the name, the ids, a word for each or one for all, and what the words need. */
export function argumentsOf<C extends Claim>({ consumer, held }: Hand<C>, wordsOf: (claim: C) => readonly string[]): readonly string[] {
  const words: string[] = []
  const more: string[] = []
  let ids = ''
  let same = true
  for (const { claim, entry, delivery } of held) {
    const [letter, ...others] = wordsOf(claim)
    const word = `${delivery}${letter}`
    same &&= words.length === 0 || word === words[0]
    words.push(word)
    for (const other of others) more.push(other)
    ids += ` ${entry}`
  }
  return [consumer, ids, same ? (words[0] ?? '') : words.join(' '), ...more]
}

function isInOrder<C extends Claim>(held: readonly HeldClaim<C>[]): boolean {
  for (let index = 1; index < held.length; index += 1) {
    if (compareEntries((held[index - 1] as HeldClaim<C>).entry, (held[index] as HeldClaim<C>).entry) > 0) return false
  }
  return true
}

/** In the order of the stream: two numbers each, without zeros before them. */
function compareEntries(one: string, other: string): number {
  // A dash comes before all digits, so that texts of one length compare as their numbers do.
  if (one.length === other.length) return one < other ? -1 : one > other ? 1 : 0
  const [ms = '', seq = ''] = one.split('-')
  const [otherMs = '', otherSeq = ''] = other.split('-')
  return compareNumbers(ms, otherMs) || compareNumbers(seq, otherSeq)
}

function compareNumbers(one: string, other: string): number {
  return one.length - other.length || (one < other ? -1 : one > other ? 1 : 0)
}
