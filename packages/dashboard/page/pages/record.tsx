import type { VNode } from 'preact'
import type { RecordDetail } from '../../src/api/types.ts'
import { askEdit } from '../parts/edit-fields.tsx'
import { KeyRecords } from '../parts/key-records.tsx'
import { ErrorMessage, WhenLoaded } from '../parts/messages.tsx'
import { PageHeading } from '../parts/page-heading.tsx'
import { PayloadView } from '../parts/payload-view.tsx'
import { AttributeTable, Facts } from '../parts/record-facts.tsx'
import { RouteLink } from '../parts/route-link.tsx'
import { StateBadge } from '../parts/state-badge.tsx'
import { Instant } from '../parts/times.tsx'
import { askCancel, askDiscard, askPark, askPublishAgain, askRearm } from '../state/actions.ts'
import { apiUrl, storePath } from '../state/api.ts'
import { storeOverview } from '../state/live-overview.ts'
import { useLoaded } from '../state/loaded.ts'
import { may } from '../state/session.ts'
import { counted } from '../text/numbers.ts'
import { visibleLines, visibleText } from '../text/visible-text.ts'

export function RecordDetails({ store, id }: { readonly store: string; readonly id: string }): VNode {
  const loaded = useLoaded<RecordDetail>(storePath(store, `records/${encodeURIComponent(id)}`))
  const { data } = loaded
  return (
    <>
      <nav class="trail" aria-label="Breadcrumb">
        <RouteLink to={{ page: 'records', store, query: {} }}>Records of {visibleText(store)}</RouteLink>
      </nav>
      <PageHeading
        title={
          <>
            Record <span class="id">{visibleText(id)}</span> {data !== undefined && <StateBadge state={data.state} />}
          </>
        }
      >
        {data !== undefined && <RecordActions store={store} record={data} />}
        <button type="button" onClick={loaded.reload}>
          Refresh
        </button>
      </PageHeading>
      <WhenLoaded loaded={loaded}>{(record) => <Content store={store} record={record} />}</WhenLoaded>
    </>
  )
}

function RecordActions({ store, record }: { readonly store: string; readonly record: RecordDetail }): VNode {
  const { id, state, orderingKey, destination } = record
  const which = { ids: [id] }
  return (
    <>
      {state === 'parked' && may('rearm') && (
        <>
          <button type="button" class="primary" onClick={() => askRearm(store, which)}>
            Re-arm
          </button>
          {may('edit') && (
            <button type="button" onClick={() => askEdit(store, record)}>
              Edit and re-arm
            </button>
          )}
          {orderingKey !== undefined && (
            <button
              type="button"
              onClick={() => askRearm(store, { filter: { state: 'parked', destination, orderingKey } }, 'Re-arm the key')}
            >
              Re-arm the key
            </button>
          )}
        </>
      )}
      {state === 'parked' && may('discard') && (
        <button type="button" class="danger" onClick={() => askDiscard(store, which)}>
          Discard
        </button>
      )}
      {(state === 'ready' || state === 'waiting') && may('pause') && (
        <button type="button" onClick={() => askPark(store, [id])}>
          Park
        </button>
      )}
      {state === 'waiting' && may('discard') && (
        <button type="button" class="danger" onClick={() => askCancel(store, which)}>
          Cancel
        </button>
      )}
      {state === 'published' && may('rearm') && (
        <button type="button" onClick={() => askPublishAgain(store, which)}>
          Publish again
        </button>
      )}
    </>
  )
}

function Content({ store, record }: { readonly store: string; readonly record: RecordDetail }): VNode {
  const { history, lastError } = record
  return (
    <>
      <Situation store={store} record={record} />
      <div class="columns">
        <div>
          <Facts store={store} record={record} />
          <PayloadView
            payload={record.payload}
            size={record.size}
            download={apiUrl(storePath(store, `records/${encodeURIComponent(record.id)}/payload`))}
          />
          <AttributeTable attributes={record.attributes} />
        </div>
        <div>
          <section class="card" aria-labelledby="failures-title">
            <h2 id="failures-title">
              Failures <span class="count">{history.length}</span>
            </h2>
            {history.length === 0 &&
              (lastError === undefined ? <p class="muted">No attempt has failed.</p> : <pre class="lines">{visibleLines(lastError)}</pre>)}
            <ol class="history">
              {history.map(({ at, error }) => (
                <li key={`${at} ${error}`}>
                  <Instant at={at} store={store} />
                  <pre class="lines">{visibleLines(error)}</pre>
                </li>
              ))}
            </ol>
          </section>
          {record.references.orderingKey !== undefined && (
            <KeyRecords store={store} record={record} orderingKey={record.references.orderingKey} />
          )}
        </div>
      </div>
    </>
  )
}

/** One sentence about what happens to the record next. */
function Situation({ store, record }: { readonly store: string; readonly record: RecordDetail }): VNode {
  const destination = storeOverview(store)?.destinations.find((each) => each.destination === record.destination)
  const { state, attempts } = record
  return (
    <>
      <p class={`message ${state === 'parked' ? 'bad' : 'info'}`}>
        {state === 'ready' && 'The next relay that claims it publishes it.'}
        {state === 'waiting' && (
          <>
            {attempts === 0 ? 'It is delayed: relays may claim it ' : `It failed ${counted(attempts, 'time')}; relays try again `}
            <Instant at={record.availableAt} store={store} />.
          </>
        )}
        {state === 'leased' && (
          <>
            A relay is publishing it. The lease ends <Instant at={record.leasedUntil} store={store} />.
          </>
        )}
        {state === 'parked' && (
          <>
            Parked <Instant at={record.parkedAt} store={store} /> after {counted(attempts, 'attempt')}. It is not published until somebody
            re-arms it.
            {record.lastError !== undefined && <span class="last-error">{visibleLines(record.lastError)}</span>}
          </>
        )}
        {state === 'published' && (
          <>
            Published <Instant at={record.publishedAt} store={store} />.
          </>
        )}
      </p>
      {state !== 'published' && destination?.paused !== undefined && (
        <p class="message warn">
          Its destination is paused{destination.paused.by !== undefined && ` by ${visibleText(destination.paused.by)}`}
          {destination.paused.reason !== undefined && `: ${visibleText(destination.paused.reason)}`}. Relays do not publish to it.
        </p>
      )}
      {state !== 'published' && destination?.downFor !== undefined && (
        <ErrorMessage text="Its destination is down: relays wait before they try it again." />
      )}
    </>
  )
}
