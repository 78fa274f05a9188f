import type { VNode } from 'preact'

interface ChoiceProps {
  readonly label: string
  readonly value: string
  readonly options: readonly (readonly [value: string, text: string])[]
  readonly onChoose: (value: string) => void
  readonly id: string
}

export function Choice({ label, value, options, onChoose, id }: ChoiceProps): VNode {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChoose(event.currentTarget.value)}>
        {options.map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </div>
  )
}

/** Buttons of which one is pressed. */
export function Switch({ label, value, options, onChoose }: Omit<ChoiceProps, 'id'>): VNode {
  return (
    <fieldset class="switch">
      <legend class="hidden">{label}</legend>
      {options.map(([each, text]) => (
        <button type="button" key={each} aria-pressed={each === value} onClick={() => onChoose(each)}>
          {text}
        </button>
      ))}
    </fieldset>
  )
}
