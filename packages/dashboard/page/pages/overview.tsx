import type { VNode } from 'preact'
import { ConsumerTable } from '../parts/consumer-table.tsx'
import { Empty, ErrorMessage } from '../parts/messages.tsx'
import { PageHeading } from '../parts/page-heading.tsx'
import { StoreCard } from '../parts/store-card.tsx'
import { connection, overview } from '../state/live-overview.ts'

export function OverviewPage(): VNode {
  const { state, problem } = connection.value
  const { stores, messages } = overview.value ?? {}
  return (
    <>
      <PageHeading title="Overview" />
      {state === 'lost' && <ErrorMessage text={`The figures are not up to date. ${problem ?? ''}`} />}
      {stores === undefined && state !== 'lost' && <p class="muted pending">Loading…</p>}
      {stores?.length === 0 && <Empty title="No stores">The dashboard was created without a store.</Empty>}
      {stores?.map((store) => (
        <StoreCard key={store.store} overview={store} />
      ))}
      {messages !== undefined && messages.consumers.length > 0 && <ConsumerTable messages={messages} />}
    </>
  )
}
