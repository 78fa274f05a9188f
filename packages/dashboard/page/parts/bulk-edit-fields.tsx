import { computed, type Signal, signal } from '@preact/signals'
import type { VNode } from 'preact'
import type { Chosen } from '../../src/api/types.ts'
import { type Action, ask } from '../state/actions.ts'
import {
  type AttributeChange,
  attributeKinds,
  type BulkEdit,
  bulkEditProblem,
  editOfAll,
  emptyBulkEdit,
  withAttribute,
} from '../state/bulk-edit.ts'

/** Opens the dialog that gives several parked records another destination or other attributes, and re-arms them. */
export function askEditAll(store: string, which: Chosen): void {
  const edit = signal(emptyBulkEdit)
  ask(store, (): Action => ({ action: 'rearm', which, edit: editOfAll(edit.value) }), {
    title: 'Edit and re-arm',
    verb: 'Save and re-arm',
    explain: (records) => `This changes and re-arms ${records}. Their attempts start again at 0, and relays publish them again.`,
    fields: <BulkEditFields edit={edit} />,
    problem: computed(() => bulkEditProblem(edit.value)),
  })
}

function BulkEditFields({ edit }: { readonly edit: Signal<BulkEdit> }): VNode {
  const { destination, attributes } = edit.value
  return (
    <>
      <div class="field">
        <label for="edit-destination">Destination</label>
        <input
          id="edit-destination"
          placeholder="unchanged"
          autocomplete="off"
          spellcheck={false}
          value={destination}
          onInput={(event) => {
            edit.value = { ...edit.value, destination: event.currentTarget.value }
          }}
        />
      </div>
      <fieldset class="attribute-changes">
        <legend>Attributes</legend>
        {attributes.map((change, index) => (
          <AttributeFields
            key={index}
            number={index + 1}
            change={change}
            onChange={(changes) => {
              edit.value = withAttribute(edit.value, index, { ...change, ...changes })
            }}
          />
        ))}
      </fieldset>
      <p class="muted">Payloads, and what is left empty here, stay as they are.</p>
    </>
  )
}

interface AttributeFieldsProps {
  readonly number: number
  readonly change: AttributeChange
  readonly onChange: (changes: Partial<AttributeChange>) => void
}

function AttributeFields({ number, change: { name, kind, value }, onChange }: AttributeFieldsProps): VNode {
  return (
    <div class="attribute-change">
      <input
        aria-label={`Name of attribute ${number}`}
        placeholder="name"
        autocomplete="off"
        spellcheck={false}
        value={name}
        onInput={(event) => onChange({ name: event.currentTarget.value })}
      />
      <select
        aria-label={`Type of attribute ${number}`}
        value={kind}
        onChange={({ currentTarget }) => onChange({ kind: attributeKinds.find((each) => each === currentTarget.value) ?? 'text' })}
      >
        {attributeKinds.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
      <input
        aria-label={`Value of attribute ${number}`}
        autocomplete="off"
        spellcheck={false}
        disabled={kind === 'removed'}
        value={kind === 'removed' ? '' : value}
        onInput={(event) => onChange({ value: event.currentTarget.value })}
      />
    </div>
  )
}
