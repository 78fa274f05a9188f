import type { ComponentChildren, VNode } from 'preact'
import type { RecordDetail } from '../../src/api/types.ts'
import { session } from '../state/session.ts'
import { bytes } from '../text/numbers.ts'
import { traceLink } from '../text/trace-link.ts'
import { visibleText } from '../text/visible-text.ts'
import { RouteLink } from './route-link.tsx'
import { Instant } from './times.tsx'

export function Facts({ store, record }: { readonly store: string; readonly record: RecordDetail }): VNode {
  const { destination, messageId, type, orderingKey, cause, contentType, traceId, references, partition } = record
  return (
    <section class="card" aria-label="Facts">
      <dl class="facts">
        <Fact name="Destination">
          <RouteLink to={{ page: 'records', store, query: { destination } }}>{visibleText(destination)}</RouteLink>
        </Fact>
        <Fact name="Type">
          {type !== undefined && (
            <RouteLink to={{ page: 'records', store, query: { type: references.type } }}>{visibleText(type)}</RouteLink>
          )}
        </Fact>
        <Fact name="Message id">
          {messageId !== undefined && (
            <RouteLink class="id" to={{ page: 'records', store, query: { messageId: references.messageId } }}>
              {visibleText(messageId)}
            </RouteLink>
          )}
        </Fact>
        <Fact name="Key">
          {orderingKey !== undefined && (
            <RouteLink to={{ page: 'records', store, query: { orderingKey: references.orderingKey } }}>
              {visibleText(orderingKey)}
            </RouteLink>
          )}
        </Fact>
        <Fact name="Partition">
          {partition !== undefined && (
            <>
              {partition.number}
              {partition.owner === undefined
                ? ', no relay has reported that it owns it'
                : `, owned by ${visibleText(partition.owner.host)} pid ${partition.owner.pid}`}
            </>
          )}
        </Fact>
        <Fact name="Cause">
          {cause !== undefined && (
            <RouteLink to={{ page: 'records', store, query: { cause: references.cause } }}>{visibleText(cause)}</RouteLink>
          )}
        </Fact>
        <Fact name="Attempts">{record.attempts}</Fact>
        <Fact name="Stored">
          <Instant at={record.createdAt} store={store} />
        </Fact>
        <Fact name="Available">
          <Instant at={record.availableAt} store={store} />
        </Fact>
        <Fact name="Leased until">{record.leasedUntil !== undefined && <Instant at={record.leasedUntil} store={store} />}</Fact>
        <Fact name="Parked">{record.parkedAt !== undefined && <Instant at={record.parkedAt} store={store} />}</Fact>
        <Fact name="Published">{record.publishedAt !== undefined && <Instant at={record.publishedAt} store={store} />}</Fact>
        <Fact name="Content type">{contentType !== undefined && visibleText(contentType)}</Fact>
        <Fact name="Size">{bytes(record.size)}</Fact>
        <Fact name="Trace">{traceId !== undefined && <TraceLink traceId={traceId} />}</Fact>
      </dl>
    </section>
  )
}

/** The id of a trace, with a link if the dashboard knows where traces are. */
export function TraceLink({ traceId }: { readonly traceId: string }): VNode {
  const trace = traceLink(session.value?.traceUrl, traceId)
  if (trace === undefined) return <span class="id">{visibleText(traceId)}</span>
  return (
    <a class="id" href={trace} target="_blank" rel="noopener noreferrer">
      {visibleText(traceId)}
    </a>
  )
}

/** A fact without a value is omitted. */
export function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }): VNode | null {
  if (children === false) return null
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

export function AttributeTable({ attributes }: Pick<RecordDetail, 'attributes'>): VNode {
  const entries = Object.entries(attributes)
  return (
    <section class="card" aria-labelledby="attributes-title">
      <h2 id="attributes-title">
        Attributes <span class="count">{entries.length}</span>
      </h2>
      <dl class="facts attributes">
        {entries.map(([name, value]) => (
          <div key={name}>
            <dt>{visibleText(name)}</dt>
            <dd class="id">{visibleText(String(value))}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}
