import type { MetricLabels, Metrics } from './metrics.ts'
import { redactDestination } from './redact.ts'

/**
 * The maximum number of values of one label, beyond which `other` replaces all further ones: a sender that invents types must not fill the memory of
 * a metrics server.
 */
export const maxLabelValues = 1000

/** The value of a label that has had too many different values. */
const otherValues = 'other'

// Keyed by the user's port, since several parts of the library wrap the same one.
const known = new WeakMap<Metrics, Map<string, Set<string>>>()

/** Returns labels without secrets and of limited cardinality; the same object if nothing has to be changed. */
export function safeLabels(metrics: Metrics): (labels: MetricLabels) => MetricLabels {
  const values = known.get(metrics) ?? new Map<string, Set<string>>()
  known.set(metrics, values)
  return (labels) => {
    let copy: Record<string, string> | undefined
    for (const name in labels) {
      const value = labels[name]
      if (value === undefined) continue
      const safe = safeValue(values, name, value)
      if (safe === value) continue
      copy ??= { ...labels }
      copy[name] = safe
    }
    return copy ?? labels
  }
}

/** Gives a wrapper of the port the same values, for code that sums by label before the port is called. */
export function shareLabels(metrics: Metrics, wrapper: Metrics): void {
  const values = known.get(metrics)
  if (values !== undefined) known.set(wrapper, values)
}

function safeValue(all: Map<string, Set<string>>, name: string, value: string): string {
  let values = all.get(name)
  if (values === undefined) {
    values = new Set()
    all.set(name, values)
  }
  // The set contains safe values only, so that the usual value costs one lookup.
  if (values.has(value)) return value
  const safe = redactDestination(String(value))
  if (values.has(safe)) return safe
  if (values.size >= maxLabelValues) return otherValues
  values.add(safe)
  return safe
}
