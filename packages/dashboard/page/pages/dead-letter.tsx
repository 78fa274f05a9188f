import type { VNode } from 'preact'
import type { DeadLetterDetail } from '../../src/api/types.ts'
import { WhenLoaded } from '../parts/messages.tsx'
import { PageHeading } from '../parts/page-heading.tsx'
import { PayloadView } from '../parts/payload-view.tsx'
import { AttributeTable, Fact, TraceLink } from '../parts/record-facts.tsx'
import { RouteLink } from '../parts/route-link.tsx'
import { Instant } from '../parts/times.tsx'
import { askReplay } from '../state/actions.ts'
import { letterPath } from '../state/api.ts'
import { useLoaded } from '../state/loaded.ts'
import { may } from '../state/session.ts'
import { bytes } from '../text/numbers.ts'
import { visibleLines, visibleText } from '../text/visible-text.ts'

/** The letters of one message: several consumers may have rejected it. */
export function DeadLetter({ name, id }: { readonly name: string; readonly id: string }): VNode {
  const loaded = useLoaded<{ readonly letters: readonly DeadLetterDetail[] }>(letterPath(name, `letters/${encodeURIComponent(id)}`))
  return (
    <>
      <PageHeading title="Dead letter">
        <RouteLink to={{ page: 'dead-letters', name }}>All of {visibleText(name)}</RouteLink>
        {may('rearm') && loaded.data?.letters.some((letter) => letter.id !== letter.position) && (
          <button type="button" class="primary" onClick={() => askReplay(name, [id])}>
            Replay
          </button>
        )}
      </PageHeading>
      <WhenLoaded loaded={loaded}>{({ letters }) => letters.map((letter) => <Letter key={letter.position} letter={letter} />)}</WhenLoaded>
    </>
  )
}

function Letter({ letter }: { readonly letter: DeadLetterDetail }): VNode {
  const { position, messageId, type, origin, reason, problem, failedAt, contentType, size, payload, attributes, traceId } = letter
  return (
    <>
      <p class="message bad">
        {reason === undefined ? 'It does not say why it was rejected.' : visibleLines(reason)}
        {problem !== undefined && <span class="last-error">{visibleLines(problem)}</span>}
      </p>
      <div class="columns">
        <div>
          <section class="card" aria-label="Facts">
            <dl class="facts">
              <Fact name="Message id">{messageId !== undefined && <span class="id">{visibleText(messageId)}</span>}</Fact>
              <Fact name="Type">{type !== undefined && visibleText(type)}</Fact>
              <Fact name="Came from">{origin === undefined ? 'unknown' : visibleText(origin)}</Fact>
              <Fact name="Rejected">{failedAt !== undefined && <Instant at={failedAt} store="" />}</Fact>
              <Fact name="Position">
                <span class="id">{visibleText(position)}</span>
              </Fact>
              <Fact name="Content type">{contentType !== undefined && visibleText(contentType)}</Fact>
              <Fact name="Size">{bytes(size)}</Fact>
              <Fact name="Trace">{traceId !== undefined && <TraceLink traceId={traceId} />}</Fact>
            </dl>
          </section>
          <PayloadView payload={payload} size={size} />
        </div>
        <div>
          <AttributeTable attributes={attributes} />
        </div>
      </div>
    </>
  )
}
