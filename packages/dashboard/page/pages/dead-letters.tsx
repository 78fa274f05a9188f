import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import type { DeadLetterSummary } from '../../src/api/types.ts'
import { Choice } from '../parts/choice.tsx'
import { Empty, WhenLoaded } from '../parts/messages.tsx'
import { PageHeading } from '../parts/page-heading.tsx'
import { RouteLink } from '../parts/route-link.tsx'
import { Instant } from '../parts/times.tsx'
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
                      : counted(count, 'dead letter')}{' '}
                    in {visibleText(queue)}
                  </span>
                  {may('rearm') && (
                    <button type="button" onClick={() => askReplay(queue, undefined)}>
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
                      <th scope="col">Message</th>
                      <th scope="col">Type</th>
                      <th scope="col">Came from</th>
                      <th scope="col">Rejected</th>
                      <th scope="col">Reason</th>
                      <th scope="col" class="number">
                        Size
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {letters.map((letter) => (
                      <Letter key={letter.position} queue={queue} letter={letter} selected={selected.value} toggle={toggle} />
                    ))}
                  </tbody>
                </table>
              </div>
              {size > 0 && (
                <section class="bulk" aria-label="Actions on the selected dead letters">
                  <span role="status">{counted(size, 'dead letter')} selected</span>
                  <button type="button" class="primary" onClick={() => askReplay(queue, [...selected.value])}>
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
  readonly queue: string
  readonly letter: DeadLetterSummary
  readonly selected: ReadonlySet<string>
  readonly toggle: (id: string) => void
}

function Letter({ queue, letter, selected, toggle }: LetterProps): VNode {
  const { id, position, messageId, type, origin, reason, problem, failedAt, size } = letter
  const shownId = visibleText(messageId ?? position)
  return (
    <tr>
      {may('rearm') && (
        <td class="check">
          {/* By its position it could be another letter by then. */}
          {id !== position && (
            <input type="checkbox" aria-label={`Select message ${shownId}`} checked={selected.has(id)} onChange={() => toggle(id)} />
          )}
        </td>
      )}
      <th scope="row">
        <RouteLink to={{ page: 'dead-letter', name: queue, id }} class="cut id" title={shownId}>
          {shownId}
        </RouteLink>
      </th>
      <td data-label="Type">{visibleText(type ?? '–')}</td>
      <td data-label="Came from">{visibleText(origin ?? '–')}</td>
      <td data-label="Rejected" class="time">
        <Instant at={failedAt} store="" />
      </td>
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
