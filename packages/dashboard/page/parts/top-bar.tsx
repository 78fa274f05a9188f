import type { VNode } from 'preact'
import { connection } from '../state/live-overview.ts'
import { route } from '../state/navigation.ts'
import type { Route } from '../state/route.ts'
import { session } from '../state/session.ts'
import { visibleText } from '../text/visible-text.ts'
import { RouteLink } from './route-link.tsx'
import { StateBadge } from './state-badge.tsx'

export function TopBar(): VNode {
  const { value } = session
  return (
    <header class="top-bar">
      <RouteLink to={{ page: 'overview' }} class="brand">
        <Logo />
        Ackord
      </RouteLink>
      <nav aria-label="Pages">
        {pages().map(({ text, to }) => (
          <RouteLink key={text} to={to} current={isCurrent(to) ? 'page' : undefined}>
            {text}
          </RouteLink>
        ))}
      </nav>
      <div class="row session">
        {value?.readOnly && <StateBadge state="neutral" text="Read-only" />}
        <Connection />
        {value !== undefined && <span class="user">{visibleText(value.name)}</span>}
      </div>
    </header>
  )
}

function pages(): readonly { readonly text: string; readonly to: Route }[] {
  const { value } = session
  if (value === undefined) return []
  const current = route.value
  const store = ('store' in current ? current.store : undefined) ?? value.stores[0]
  return [
    { text: 'Overview', to: { page: 'overview' } as const },
    ...(store === undefined ? [] : [{ text: 'Records', to: { page: 'records', store, query: {} } as const }]),
    ...(value.inboxes.length > 0 ? [{ text: 'Inbox', to: { page: 'inbox' } as const }] : []),
    ...(value.deadLetters.length > 0 ? [{ text: 'Dead letters', to: { page: 'dead-letters' } as const }] : []),
    ...(store === undefined ? [] : [{ text: 'Audit', to: { page: 'audit', store } as const }]),
    ...(value.doctor ? [{ text: 'Doctor', to: { page: 'doctor' } as const }] : []),
  ]
}

function isCurrent({ page }: Route): boolean {
  const current = route.value.page
  return page === current || `${current}s` === page
}

const connectionTexts = { connecting: 'Connecting', live: 'Live', polling: 'Polling', lost: 'Disconnected' }

function Connection(): VNode {
  const { state, problem } = connection.value
  return (
    <span class={`connection ${state}`} role="status" title={problem}>
      {connectionTexts[state]}
    </span>
  )
}

function Logo(): VNode {
  return (
    <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
      <rect x="20.4" y="1.5" width="2.2" height="23.5" rx="1.1" />
      <ellipse cx="15.8" cy="8.6" rx="6.4" ry="3.4" transform="rotate(-20 15.8 8.6)" />
      <ellipse cx="15.8" cy="17" rx="6.4" ry="3.4" transform="rotate(-20 15.8 17)" />
      <ellipse cx="15.8" cy="25.4" rx="6.4" ry="3.4" transform="rotate(-20 15.8 25.4)" />
    </svg>
  )
}
