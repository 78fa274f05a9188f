import type { Signal } from '@preact/signals'
import type { VNode } from 'preact'
import type { OutboxState, RecordSummary } from '../../src/api/types.ts'
import { visibleText } from '../text/visible-text.ts'
import { RouteLink } from './route-link.tsx'
import { StateBadge } from './state-badge.tsx'
import { Instant } from './times.tsx'

interface RecordTableProps {
  readonly store: string
  readonly records: readonly RecordSummary[]
  /** The states of the selected records by id. Default: records cannot be selected. */
  readonly selected?: Signal<ReadonlyMap<string, OutboxState>> | undefined
}

export function RecordTable({ store, records, selected }: RecordTableProps): VNode {
  const allSelected = selected !== undefined && records.every(({ id }) => selected.value.has(id))

  function select(changed: readonly RecordSummary[], isSelected: boolean) {
    if (selected === undefined) return
    const next = new Map(selected.value)
    for (const { id, state } of changed) isSelected ? next.set(id, state) : next.delete(id)
    selected.value = next
  }

  return (
    <table class="stacked records" aria-label="Records">
      <thead>
        <tr>
          {selected !== undefined && (
            <th scope="col" class="check">
              <input
                type="checkbox"
                aria-label="Select all records of this page"
                checked={allSelected}
                onChange={() => select(records, !allSelected)}
              />
            </th>
          )}
          <th scope="col">Record</th>
          <th scope="col">State</th>
          <th scope="col">Destination</th>
          <th scope="col">Type</th>
          <th scope="col">Key</th>
          <th scope="col" class="number">
            Attempts
          </th>
          <th scope="col">Stored</th>
          <th scope="col">Last error</th>
        </tr>
      </thead>
      <tbody>
        {records.map((record) => (
          <tr key={record.id} class={selected?.value.has(record.id) ? 'selected' : undefined}>
            {selected !== undefined && (
              <td class="check">
                <input
                  type="checkbox"
                  aria-label={`Select record ${visibleText(record.id)}`}
                  checked={selected.value.has(record.id)}
                  onChange={(event) => select([record], event.currentTarget.checked)}
                />
              </td>
            )}
            <th scope="row">
              <RouteLink to={{ page: 'record', store, id: record.id }} class="cut id" title={visibleText(record.id)}>
                {visibleText(record.id)}
              </RouteLink>
            </th>
            <td data-label="State">
              <StateBadge state={record.state} />
            </td>
            <Cell label="Destination" text={record.destination} />
            <Cell label="Type" text={record.type} />
            <Cell label="Key" text={record.orderingKey} />
            <td class="number" data-label="Attempts">
              {record.attempts}
            </td>
            <td data-label="Stored" class="time">
              <Instant at={record.createdAt} store={store} />
            </td>
            <Cell label="Last error" text={record.lastError} class="error" />
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Cell({ label, text, class: name }: { readonly label: string; readonly text: string | undefined; readonly class?: string }): VNode {
  if (text === undefined || text === '') {
    return (
      <td data-label={label} class={`absent ${name ?? ''}`}>
        <span class="muted">–</span>
      </td>
    )
  }
  const shown = visibleText(text)
  return (
    <td data-label={label} class={name}>
      <span class="cut" title={shown}>
        {shown}
      </span>
    </td>
  )
}
