import { computed, type Signal, signal } from '@preact/signals'
import type { VNode } from 'preact'
import type { RecordDetail } from '../../src/api/types.ts'
import { type Action, ask } from '../state/actions.ts'
import { type EditDraft, editOf, editProblem, startDraft } from '../state/edit-draft.ts'
import { visibleText } from '../text/visible-text.ts'

/** Opens the dialog that changes a parked record and re-arms it. */
export function askEdit(store: string, record: RecordDetail): void {
  const draft = signal(startDraft(record))
  ask(store, (): Action => ({ action: 'rearm', which: { ids: [record.id] }, edit: editOf(record, draft.value) }), {
    title: 'Edit and re-arm',
    verb: 'Save and re-arm',
    explain: (records) => `This changes and re-arms ${records}. Attempts start again at 0.`,
    fields: <EditFields draft={draft} record={record} />,
    problem: computed(() => editProblem(record, draft.value)),
  })
}

function EditFields({ draft, record }: { readonly draft: Signal<EditDraft>; readonly record: RecordDetail }): VNode {
  const change = (changes: Partial<EditDraft>) => {
    draft.value = { ...draft.value, ...changes }
  }
  const { destination, attributes, added, payload } = draft.value
  return (
    <>
      <div class="field">
        <label for="edit-destination">Destination</label>
        <input
          id="edit-destination"
          autocomplete="off"
          spellcheck={false}
          value={destination}
          onInput={(event) => change({ destination: event.currentTarget.value })}
        />
      </div>
      {payload !== undefined && (
        <div class="field">
          <label for="edit-payload">Payload{record.payload?.kind === 'json' && ' (JSON)'}</label>
          <textarea
            id="edit-payload"
            rows={10}
            spellcheck={false}
            value={payload}
            onInput={(event) => change({ payload: event.currentTarget.value })}
          />
        </div>
      )}
      {payload === undefined && <p class="muted">{whyNoPayload(record)}</p>}
      <details>
        <summary>Attributes ({Object.keys(attributes).length})</summary>
        {Object.entries(attributes).map(([name, value]) => (
          <div class="field inline" key={name}>
            <label for={`attribute-${name}`}>{visibleText(name)}</label>
            <input
              id={`attribute-${name}`}
              autocomplete="off"
              spellcheck={false}
              value={value}
              onInput={(event) => change({ attributes: { ...attributes, [name]: event.currentTarget.value } })}
            />
          </div>
        ))}
        <div class="field inline">
          <input
            aria-label="Name of a new attribute"
            placeholder="new attribute"
            autocomplete="off"
            spellcheck={false}
            value={added.name}
            onInput={(event) => change({ added: { ...added, name: event.currentTarget.value } })}
          />
          <input
            aria-label="Value of the new attribute"
            autocomplete="off"
            spellcheck={false}
            value={added.value}
            onInput={(event) => change({ added: { ...added, value: event.currentTarget.value } })}
          />
        </div>
      </details>
    </>
  )
}

function whyNoPayload({ payload }: RecordDetail): string {
  if (payload === undefined) return 'You do not see the payload, so that you cannot edit it.'
  return payload.truncated
    ? 'The payload has more than 64 kB and cannot be edited here.'
    : 'The payload is binary and cannot be edited here.'
}
