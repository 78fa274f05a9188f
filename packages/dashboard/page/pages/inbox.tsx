import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import type { InboxEntry } from '../../src/api/types.ts'
import { Choice } from '../parts/choice.tsx'
import { Empty, WhenLoaded } from '../parts/messages.tsx'
import { PageHeading } from '../parts/page-heading.tsx'
import { StateBadge } from '../parts/state-badge.tsx'
import { Instant } from '../parts/times.tsx'
import { useLoaded } from '../state/loaded.ts'
import { goTo } from '../state/navigation.ts'
import { queryString } from '../state/record-query.ts'
import type { Route } from '../state/route.ts'
import { session } from '../state/session.ts'
import { visibleText } from '../text/visible-text.ts'

const entryStates = { handled: ['good', 'handled'], inProgress: ['warn', 'in progress'], partial: ['bad', 'partial'] } as const

/** Was a message handled, by which consumer, when, and until when is that remembered? */
export function Inbox({ route }: { readonly route: Extract<Route, { page: 'inbox' }> }): VNode {
  const inboxes = session.value?.inboxes ?? []
  const inbox = route.inbox ?? inboxes[0] ?? ''
  const draft = useSignal({ id: route.id ?? '', consumer: route.consumer ?? '', source: route.source ?? '' })
  const { id, consumer, source } = route
  const loaded = useLoaded<{ readonly entries: readonly InboxEntry[] }>(
    id === undefined ? undefined : `inboxes/${encodeURIComponent(inbox)}${queryString({ id, consumer, source })}`,
  )
  const search = (chosen: string) => goTo({ page: 'inbox', inbox: chosen, ...draft.value })

  return (
    <>
      <PageHeading title="Inbox">
        {inboxes.length > 1 && (
          <Choice
            id="inbox"
            label="Inbox"
            value={inbox}
            options={inboxes.map((name) => [name, visibleText(name)] as const)}
            onChoose={search}
          />
        )}
      </PageHeading>
      <search class="card search" aria-label="Messages of the inbox">
        <form
          onSubmit={(event) => {
            event.preventDefault()
            search(inbox)
          }}
        >
          {(['id', 'consumer', 'source'] as const).map((name) => (
            <div class="field" key={name}>
              <label for={`inbox-${name}`}>
                {{ id: 'Message id', consumer: 'Consumer (optional)', source: 'Source (optional)' }[name]}
              </label>
              <input
                id={`inbox-${name}`}
                type="search"
                autocomplete="off"
                spellcheck={false}
                required={name === 'id'}
                value={draft.value[name]}
                onInput={(event) => {
                  draft.value = { ...draft.value, [name]: event.currentTarget.value }
                }}
              />
            </div>
          ))}
          <button type="submit" class="primary">
            Look up
          </button>
        </form>
      </search>
      {id === undefined ? (
        <Empty title="Was a message handled?">Enter its id to see which consumers have handled it, and when.</Empty>
      ) : (
        <WhenLoaded loaded={loaded}>
          {({ entries }) =>
            entries.length === 0 ? (
              <Empty title="Not in the inbox">No consumer has handled this message, or the inbox has forgotten it since.</Empty>
            ) : (
              <div class="card">
                <table class="stacked" aria-label="Entries of the inbox">
                  <thead>
                    <tr>
                      <th scope="col">Consumer</th>
                      <th scope="col">State</th>
                      <th scope="col">Source</th>
                      <th scope="col">Handled</th>
                      <th scope="col">Remembered until</th>
                    </tr>
                  </thead>
                  <tbody>
                    {entries.map((entry) => (
                      <tr key={`${entry.consumer} ${entry.source}`}>
                        <th scope="row">{visibleText(entry.consumer)}</th>
                        <td data-label="State">
                          <StateBadge state={entryStates[entry.state][0]} text={entryStates[entry.state][1]} />
                        </td>
                        <td data-label="Source">{visibleText(entry.source) || <span class="muted">none</span>}</td>
                        <td data-label="Handled">
                          {entry.handledAt === undefined ? 'unknown' : <Instant at={entry.handledAt} store="" />}
                        </td>
                        <td data-label="Remembered until">
                          {entry.expiresAt === undefined ? 'the next cleanup' : <Instant at={entry.expiresAt} store="" />}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )
          }
        </WhenLoaded>
      )}
    </>
  )
}
