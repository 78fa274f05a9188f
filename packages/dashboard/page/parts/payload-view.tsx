import { useSignal } from '@preact/signals'
import type { ComponentChildren, VNode } from 'preact'
import type { Payload } from '../../src/api/types.ts'
import { may } from '../state/session.ts'
import { fromBase64, hexLines } from '../text/hex-text.ts'
import { indentJson } from '../text/json-text.ts'
import { bytes } from '../text/numbers.ts'
import { visibleLines } from '../text/visible-text.ts'
import { Switch } from './choice.tsx'

type Form = 'json' | 'text' | 'hex'

/** Characters of a payload that is shown as a whole at once. */
const maxOpenLength = 3000

interface PayloadViewProps {
  readonly payload: Payload | undefined
  /** Bytes of the whole payload. */
  readonly size: number
  /** The address of its bytes. Default: it cannot be downloaded. */
  readonly download?: string
}

export function PayloadView({ payload, size, download }: PayloadViewProps): VNode {
  const form = useSignal<Form | undefined>(undefined)
  const open = useSignal(false)
  const shown = form.value ?? (payload?.kind === 'binary' ? 'hex' : payload?.kind) ?? 'text'
  return (
    <section class="card" aria-labelledby="payload-title">
      <header class="card-heading">
        <h2 id="payload-title">
          Payload <span class="count">{bytes(size)}</span>
        </h2>
        {payload !== undefined && (
          <div class="row">
            <Switch
              label="Show the payload as"
              value={shown}
              options={forms(payload)}
              onChoose={(value) => {
                form.value = value as Form
              }}
            />
            {download !== undefined && (
              <a class="button small" href={download} download>
                Download
              </a>
            )}
          </div>
        )}
      </header>
      {payload === undefined && (
        <p class="muted">{may('payload') ? 'The payload cannot be shown.' : 'You do not have the right to see payloads.'}</p>
      )}
      {payload !== undefined && (open.value || !payload.truncated) && (
        <pre class={`payload ${open.value || payload.content.length < maxOpenLength ? '' : 'clipped'}`}>{content(payload, shown)}</pre>
      )}
      {payload !== undefined && !open.value && (payload.truncated || payload.content.length >= maxOpenLength) && (
        <button
          type="button"
          onClick={() => {
            open.value = true
          }}
        >
          {payload.truncated ? `Show the first 64 kB of ${bytes(size)}` : `Show all ${bytes(size)}`}
        </button>
      )}
    </section>
  )
}

function forms({ kind }: Payload): readonly (readonly [Form, string])[] {
  if (kind === 'binary') return [['hex', 'Hex']]
  const text = [
    ['text', 'Text'],
    ['hex', 'Hex'],
  ] as const
  return kind === 'json' ? [['json', 'JSON'], ...text] : text
}

function content({ kind, content: value }: Payload, form: Form): ComponentChildren {
  if (value === '') return <span class="muted">empty</span>
  if (form === 'hex') return hexLines(kind === 'binary' ? fromBase64(value) : new TextEncoder().encode(value))
  if (form === 'text') return visibleLines(value)
  return indentJson(value).map(({ kind: token, text }) =>
    token === 'mark' ? text : <span class={`json-${token}`}>{visibleLines(text)}</span>,
  )
}
