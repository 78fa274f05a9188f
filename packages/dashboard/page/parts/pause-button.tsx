import { type Signal, signal } from '@preact/signals'
import type { VNode } from 'preact'
import type { DestinationOverview } from '../../src/api/types.ts'
import { ask, askResume } from '../state/actions.ts'
import { may } from '../state/session.ts'
import { visibleText } from '../text/visible-text.ts'
import { Choice } from './choice.tsx'

export function PauseButton({ store, destination }: { readonly store: string; readonly destination: DestinationOverview }): VNode | null {
  if (!may('pause')) return null
  const name = destination.destination
  if (destination.paused !== undefined) {
    return (
      <button type="button" class="small" aria-label={`Resume ${visibleText(name)}`} onClick={() => askResume(store, name)}>
        Resume
      </button>
    )
  }
  return (
    <button type="button" class="small" aria-label={`Pause ${visibleText(name)}`} onClick={() => askPause(store, name)}>
      Pause
    </button>
  )
}

function askPause(store: string, destination: string): void {
  const duration = signal('')
  ask(store, () => ({ action: 'pause', destination, duration: duration.value === '' ? undefined : Number(duration.value) }), {
    title: `Pause ${visibleText(destination)}`,
    verb: 'Pause',
    withoutRecords: true,
    explain: (records) =>
      `All relays stop publishing to this destination within about a second. This holds back ${records} and those that follow, until the pause ends.`,
    fields: <DurationChoice duration={duration} />,
  })
}

function DurationChoice({ duration }: { readonly duration: Signal<string> }): VNode {
  return (
    <Choice
      id="pause-duration"
      label="For"
      value={duration.value}
      options={[
        ['', 'until somebody resumes it'],
        ['900000', '15 min'],
        ['3600000', '1 h'],
        ['14400000', '4 h'],
        ['86400000', '24 h'],
      ]}
      onChoose={(value) => {
        duration.value = value
      }}
    />
  )
}
