/** The id right behind this one: ranges of 6.0 cannot leave out where they start. */
export function nextId(id: string): string {
  const { milliseconds, sequence } = partsOf(id)
  return sequence === lastSequence ? `${milliseconds + 1n}-0` : `${milliseconds}-${sequence + 1n}`
}

export function compareIds(left: string, right: string): number {
  const [one, other] = [partsOf(left), partsOf(right)]
  const difference = one.milliseconds === other.milliseconds ? one.sequence - other.sequence : one.milliseconds - other.milliseconds
  return difference < 0n ? -1 : difference > 0n ? 1 : 0
}

const lastSequence = 2n ** 64n - 1n

function partsOf(id: string): { readonly milliseconds: bigint; readonly sequence: bigint } {
  const [milliseconds = '0', sequence = '0'] = id.split('-')
  return { milliseconds: BigInt(milliseconds), sequence: BigInt(sequence) }
}
