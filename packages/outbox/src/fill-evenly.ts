/** Shares out `limit` over queues of these sizes: as much for each as for any other, as far as it has so much. What cannot be divided goes to the first ones. */
export function fillEvenly(limit: number, sizes: readonly number[]): readonly number[] {
  const amounts = sizes.map(() => 0)
  let left = limit
  let open = [...sizes.entries()].filter(([, size]) => size > 0)
  while (left > 0 && open.length > 0) {
    const each = Math.max(1, Math.floor(left / open.length))
    for (const [index, size] of open) {
      const amount = amounts[index] ?? 0
      const more = Math.min(each, size - amount, left)
      amounts[index] = amount + more
      left -= more
    }
    open = open.filter(([index, size]) => (amounts[index] ?? 0) < size)
  }
  return amounts
}
