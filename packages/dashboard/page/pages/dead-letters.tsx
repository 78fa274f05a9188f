import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import type { DeadLetterSummary } from '../../src/api/types.ts'
import { Choice } from '../parts/choice.tsx'
import { Empty, WhenLoaded } from '../parts/messages.tsx'
import { PageHeading } from '../parts/page-heading.tsx'
import { askReplay } from '../state/actions.ts'
import { revision, useLoaded } from '../state/loaded.ts'
import { goTo } from '../state/navigation.ts'
import { may, session } from '../state/session.ts'
import { bytes, counted } from '../text/numbers.ts'
import { visibleText } from '../text/visible-text.ts'

export function DeadLetters({ name }: { readonly name: string | undefined }): VNode {
  const names = session.value?.deadLetters ?? []
  const queue = name ?? names[0] ?? ''
  const loaded = useLoaded<{ readonly letters: readonly DeadLetterSummary[]; readonly count: number }>(
    `dead-letters/${encodeURIComponent(queue)}`,
  )
  const selected = useSignal<ReadonlySet<string>>(new Set())
  const { size } = selected.value
  useEffect(() => {
    selected.value = new Set()
  }, [queue, revision.value])

  function toggle(id: string) {
    const next = new Set(selected.value)
    if (!next.delete(id)) next.add(id)
    selected.value = next
  }

  return (
    <>
      <PageHeading title="Dead letters">
        {names.length > 1 && (
          <Choice
            id="queue"
            label="Queue"
            value={queue}
            options={names.map((each) => [each, visibleText(each)] as const)}
            onChoose={(chosen) => goTo({ page: 'dead-letters', name: chosen })}
          />
        )}
        <button type="button" onClick={loaded.reload}>
          Refresh
        </button>
      </PageHeading>
      <WhenLoaded loaded={loaded}>
        {({ letters, count }) =>
          letters.length === 0 ? (
            <Empty title="No dead letters">Every message of this queue was handled.</Empty>
          ) : (
            <>
              <div class="card">
                <div class="row toolbar">
                  <span class="muted">
                    {letters.length < count
                      ? `The first ${letters.length} of ${counted(count, 'dead letter')}`
                      : counted(count, 'dead letter')}
                  </span>
                  {may('rearm') && (
                    <button type="button" onClick={() => askReplay(queue, undefined, count)}>
                      Replay all
                    </button>
                  )}
                </div>
                <table class="stacked" aria-label="Dead letters">
                  <thead>
                    <tr>
                      {may('rearm') && (
                        <th scope="col" class="check">
                          <span class="hidden">Select</span>
                        </th>
                      )}
                      <th scope="col">Position</th>
                      <th scope="col">Message id</th>
                      <th scope="col">Type</th>
                      <th scope="col">Origin</th>
                      <th scope="col">Reason</th>
                      <th scope="col" class="number">
                        Size
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {letters.map((letter) => (
                      <Letter key={letter.position} letter={letter} selected={selected.value} toggle={toggle} />
                    ))}
                  </tbody>
                </table>
              </div>
              {size > 0 && (
                <section class="bulk" aria-label="Actions on the selected dead letters">
                  <span role="status">{counted(size, 'dead letter')} selected</span>
                  <button type="button" class="primary" onClick={() => askReplay(queue, [...selected.value], size)}>
                    Replay {size}
                  </button>
                </section>
              )}
            </>
          )
        }
      </WhenLoaded>
    </>
  )
}

interface LetterProps {
  readonly letter: DeadLetterSummary
  readonly selected: ReadonlySet<string>
  readonly toggle: (id: string) => void
}

function Letter({ letter, selected, toggle }: LetterProps): VNode {
  const { position, messageId, type, origin, reason, problem, size } = letter
  return (
    <tr>
      {may('rearm') && (
        <td class="check">
          {messageId !== undefined && (
            <input
              type="checkbox"
              aria-label={`Select message ${visibleText(messageId)}`}
              checked={selected.has(messageId)}
              onChange={() => toggle(messageId)}
            />
          )}
        </td>
      )}
      <th scope="row" class="id">
        {visibleText(position)}
      </th>
      <td data-label="Message id" class="id">
        {visibleText(messageId ?? '–')}
      </td>
      <td data-label="Type">{visibleText(type ?? '–')}</td>
      <td data-label="Origin">{visibleText(origin ?? '–')}</td>
      <td data-label="Reason" class="error">
        {visibleText(reason ?? '–')}
        {problem !== undefined && <span class="last-error">{visibleText(problem)}</span>}
      </td>
      <td data-label="Size" class="number">
        {bytes(size)}
      </td>
    </tr>
  )
}
