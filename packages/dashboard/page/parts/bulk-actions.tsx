import type { Signal } from '@preact/signals'
import type { VNode } from 'preact'
import type { Chosen, OutboxState, RecordQuery } from '../../src/api/types.ts'
import { askCancel, askDiscard, askPark, askPublishAgain, askRearm } from '../state/actions.ts'
import { filterOf } from '../state/record-query.ts'
import { may } from '../state/session.ts'
import { counted } from '../text/numbers.ts'
import { askEditAll } from './bulk-edit-fields.tsx'

type Selection = Signal<ReadonlyMap<string, OutboxState>>

/** Actions on the selected records. Those in a state that an action does not change are left out of it. */
export function SelectionActions({ store, selected }: { readonly store: string; readonly selected: Selection }): VNode | null {
  const { size } = selected.value
  if (size === 0) return null
  const idsIn = (...states: readonly OutboxState[]) => [...selected.value].filter(([, state]) => states.includes(state)).map(([id]) => id)
  const [parked, published, pending, waiting] = [idsIn('parked'), idsIn('published'), idsIn('ready', 'waiting'), idsIn('waiting')]
  return (
    <section class="bulk" aria-label="Actions on the selected records">
      <span role="status">{counted(size, 'record')} selected</span>
      {parked.length > 0 && <ParkedActions store={store} which={{ ids: parked }} noun={`${parked.length} parked`} />}
      {published.length > 0 && may('rearm') && (
        <button type="button" onClick={() => askPublishAgain(store, { ids: published })}>
          Publish {published.length} again
        </button>
      )}
      {pending.length > 0 && may('pause') && (
        <button type="button" onClick={() => askPark(store, pending)}>
          Park {pending.length}
        </button>
      )}
      {waiting.length > 0 && may('discard') && (
        <button type="button" class="danger" onClick={() => askCancel(store, { ids: waiting })}>
          Cancel {waiting.length} waiting
        </button>
      )}
      <button
        type="button"
        class="quiet"
        onClick={() => {
          selected.value = new Map()
        }}
      >
        Clear the selection
      </button>
    </section>
  )
}

/** Actions on all records that match the filters, on this page or not. */
export function MatchActions({ store, query }: { readonly store: string; readonly query: RecordQuery }): VNode | null {
  const { id, state } = query
  if (id !== undefined) return null
  if (state === 'published' && may('rearm')) {
    return (
      <button type="button" onClick={() => askPublishAgain(store, { filter: filterOf(query) })}>
        Publish all that match again
      </button>
    )
  }
  if (state === 'waiting' && may('discard')) {
    return (
      <button type="button" class="danger" onClick={() => askCancel(store, { filter: filterOf(query) })}>
        Cancel all that match
      </button>
    )
  }
  if (state !== undefined && state !== 'parked') return null
  const noun = state === 'parked' ? 'all that match' : 'all parked that match'
  return <ParkedActions store={store} which={{ filter: { ...filterOf(query), state: 'parked' } }} noun={noun} />
}

function ParkedActions({ store, which, noun }: { readonly store: string; readonly which: Chosen; readonly noun: string }): VNode {
  return (
    <>
      {may('rearm') && (
        <button type="button" onClick={() => askRearm(store, which)}>
          Re-arm {noun}
        </button>
      )}
      {may('rearm') && may('edit') && (
        <button type="button" onClick={() => askEditAll(store, which)}>
          Edit and re-arm {noun}
        </button>
      )}
      {may('discard') && (
        <button type="button" class="danger" onClick={() => askDiscard(store, which)}>
          Discard {noun}
        </button>
      )}
    </>
  )
}
