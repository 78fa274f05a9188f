import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { Session } from '../src/api/types.ts'
import { Audit } from './pages/audit.tsx'
import { DeadLetter } from './pages/dead-letter.tsx'
import { DeadLetters } from './pages/dead-letters.tsx'
import { Doctor } from './pages/doctor.tsx'
import { Inbox } from './pages/inbox.tsx'
import { OverviewPage } from './pages/overview.tsx'
import { RecordDetails } from './pages/record.tsx'
import { Records } from './pages/records.tsx'
import { ActionDialog } from './parts/action-dialog.tsx'
import { JobList } from './parts/job-list.tsx'
import { Empty, ErrorMessage } from './parts/messages.tsx'
import { PageHeading } from './parts/page-heading.tsx'
import { TopBar } from './parts/top-bar.tsx'
import { pendingAction } from './state/actions.ts'
import { errorText, getJson } from './state/api.ts'
import { route } from './state/navigation.ts'
import { formatRoute, type Route } from './state/route.ts'
import { session } from './state/session.ts'

export function App(): VNode {
  const error = useSignal<string | undefined>(undefined)
  const shownJob = useSignal<string | undefined>(undefined)
  const main = useRef<HTMLElement>(null)
  const pageKey = keyOf(route.value)

  useEffect(() => {
    getJson<Session>('session')
      .then((loaded) => {
        session.value = loaded
      })
      .catch((reason: unknown) => {
        error.value = errorText(reason)
      })
  }, [])

  // A screen reader announces the new page; the first one is announced by its title.
  const isFirst = useRef(true)
  useEffect(() => {
    document.title = `${titles[route.value.page]} · Ackord`
    if (isFirst.current) isFirst.current = false
    else main.current?.querySelector('h1')?.focus()
  }, [pageKey])

  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <TopBar />
      <main ref={main} tabIndex={-1}>
        {error.value !== undefined && (
          <>
            <PageHeading title="Ackord" />
            <ErrorMessage text={error.value} />
          </>
        )}
        {session.value !== undefined && <Page key={pageKey} />}
      </main>
      <JobList except={shownJob.value} />
      {pendingAction.value !== undefined && (
        <ActionDialog
          key={pendingAction.value}
          action={pendingAction.value}
          onJob={(id) => {
            shownJob.value = id
          }}
        />
      )}
    </>
  )
}

const titles: Readonly<Record<Route['page'], string>> = {
  overview: 'Overview',
  records: 'Records',
  record: 'Record',
  inbox: 'Inbox',
  'dead-letters': 'Dead letters',
  'dead-letter': 'Dead letter',
  audit: 'Audit',
  doctor: 'Doctor',
  unknown: 'Not found',
}

/** Pages keep their state while only their query changes. */
function keyOf(current: Route): string {
  return current.page === 'record' || current.page === 'dead-letter'
    ? formatRoute(current)
    : 'store' in current
      ? `${current.page} ${current.store}`
      : current.page
}

function Page(): VNode {
  const current = route.value
  switch (current.page) {
    case 'overview':
      return <OverviewPage />
    case 'records':
      return <Records store={current.store} query={current.query} />
    case 'record':
      return <RecordDetails store={current.store} id={current.id} />
    case 'inbox':
      return <Inbox route={current} />
    case 'dead-letters':
      return <DeadLetters name={current.name} />
    case 'dead-letter':
      return <DeadLetter name={current.name} id={current.id} />
    case 'audit':
      return <Audit store={current.store} />
    case 'doctor':
      return <Doctor />
    default:
      return (
        <>
          <PageHeading title="Not found" />
          <Empty title="This page does not exist">Choose one of the pages above.</Empty>
        </>
      )
  }
}
