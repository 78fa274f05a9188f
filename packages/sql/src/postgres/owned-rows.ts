/** Parts of the statements by which the owner of partitions reads the outbox. Rows are named `o`. */

// In a subquery, because a volatile function could not be looked up in an index.
export const now = '(SELECT clock_timestamp())'

/** What the index of the keys has. */
export const keyed = `o.ordering_key IS NOT NULL AND o.state IN ('ready', 'waiting')`

/** A relay without order may have it still, while the order of a table is changed. */
export const unleased: string = `(o.lease_until IS NULL OR o.lease_until <= ${now})`

export const due: string = `(o.state = 'ready' OR o.available_at <= ${now}) AND ${unleased}`
