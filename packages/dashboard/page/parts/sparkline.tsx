import type { VNode } from 'preact'

const [width, height] = [72, 18]

/** A small line of values beside a number that says the same. */
export function Sparkline({ values }: { readonly values: readonly number[] }): VNode {
  const max = Math.max(1, ...values)
  const step = width / Math.max(1, values.length - 1)
  const points = values.map((value, index) => `${(index * step).toFixed(1)},${(height - 1 - (value / max) * (height - 2)).toFixed(1)}`)
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-hidden="true">
      <polyline points={points.join(' ')} />
    </svg>
  )
}
