import { type ReadonlySignal, signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { ActionRequest, Chosen, Job, Preview, ReplayPreview } from '../../src/api/types.ts'
import { counted } from '../text/numbers.ts'
import { visibleText } from '../text/visible-text.ts'
import { letterPath, postJson, storePath } from './api.ts'

/** An action that waits in the dialog for a reason and a confirmation. */
export interface PendingAction {
  readonly title: string
  /** The label of the button. */
  readonly verb: string
  readonly danger?: boolean
  /** Asked when the dialog opens. */
  readonly preview: () => Promise<Preview>
  /** The things that the preview counts. Default: records. */
  readonly noun?: string
  /** Describes the effect of the action, for the records that the preview counted. */
  readonly explain: (records: string) => string
  /** Whether it has a purpose although it concerns no record now. Default: false. */
  readonly withoutRecords?: boolean
  /** Further fields, and what is wrong with their contents: empty if they are only not filled in yet. */
  readonly fields?: ComponentChildren
  readonly problem?: ReadonlySignal<string | undefined>
  readonly start: (reason: string) => Promise<Job>
}

export const pendingAction = signal<PendingAction | undefined>(undefined)

type WithoutReason<T> = T extends unknown ? Omit<T, 'reason'> : never
export type Action = WithoutReason<ActionRequest>

/** Opens the dialog for an action on a store. `request` is called when the dialog opens and when it is confirmed. */
export function ask(store: string, request: () => Action, texts: Omit<PendingAction, 'preview' | 'start'>): void {
  let previewedAt = performance.now()
  pendingAction.value = {
    ...texts,
    preview() {
      previewedAt = performance.now()
      // The server requires a reason here as well.
      return postJson<Preview>(storePath(store, 'preview'), { ...request(), reason: 'Preview' })
    },
    start(reason) {
      const action = request()
      const isBounded = action.action === 'rearm' || action.action === 'discard' || action.action === 'cancel'
      const previewAge = isBounded ? Math.round(performance.now() - previewedAt) : undefined
      return postJson<Job>(storePath(store, 'actions'), { ...action, previewAge, reason })
    },
  }
}

export function askRearm(store: string, which: Chosen, title = 'Re-arm'): void {
  ask(store, () => ({ action: 'rearm', which }), {
    title,
    verb: 'Re-arm',
    explain: (records) => `This re-arms ${records}. Their attempts start again at 0, and relays publish them again.`,
  })
}

export function askPublishAgain(store: string, which: Chosen): void {
  ask(store, () => ({ action: 'rearm', which, state: 'published' }), {
    title: 'Publish again',
    verb: 'Publish again',
    explain: (records) =>
      `This publishes ${records} a second time, with the same message ids and the attribute replayed. Consumers without an inbox handle them twice.`,
  })
}

export function askDiscard(store: string, which: Chosen): void {
  ask(store, () => ({ action: 'discard', which }), {
    title: 'Discard',
    verb: 'Discard',
    danger: true,
    explain: (records) => `This deletes ${records} permanently. They are never published.`,
  })
}

export function askCancel(store: string, which: Chosen): void {
  ask(store, () => ({ action: 'cancel', which }), {
    title: 'Cancel waiting records',
    verb: 'Delete',
    danger: true,
    explain: (records) => `This deletes ${records} that would be published later. What becomes due meanwhile is not deleted.`,
  })
}

export function askPark(store: string, ids: readonly string[]): void {
  ask(store, () => ({ action: 'park', which: { ids } }), {
    title: 'Park',
    verb: 'Park',
    explain: (records) => `This parks ${records}. No relay publishes them until they are re-armed.`,
  })
}

export function askResume(store: string, destination: string): void {
  ask(store, () => ({ action: 'resume', destination }), {
    title: `Resume ${visibleText(destination)}`,
    verb: 'Resume',
    withoutRecords: true,
    explain: (records) => `Relays publish to this destination again within about a second. ${records} wait there.`,
  })
}

/** `ids`: `undefined` for all letters. */
export function askReplay(name: string, ids: readonly string[] | undefined): void {
  let found: ReplayPreview | undefined
  pendingAction.value = {
    title: 'Replay dead letters',
    verb: 'Replay',
    noun: 'dead letter',
    async preview() {
      found = await postJson<ReplayPreview>(letterPath(name, 'preview'), { ids, reason: 'Preview' })
      return found
    },
    explain: (letters) => `${replayText(letters, found)} Consumers handle them again.`,
    start: (reason) => postJson<Job>(letterPath(name, 'replay'), { ids, reason }),
  }
}

/** At most this many destinations are named. */
const namedDestinations = 3

function replayText(letters: string, found: ReplayPreview | undefined): string {
  const { destinations = [], skipped = 0 } = found ?? {}
  const named = destinations.slice(0, namedDestinations).map(visibleText).join(', ')
  const others = destinations.length > namedDestinations ? ` and ${destinations.length - namedDestinations} other destinations` : ''
  const staying = skipped === 0 ? '' : ` ${counted(skipped, 'dead letter')} cannot be replayed and ${skipped === 1 ? 'stays' : 'stay'}.`
  return `This sends ${letters} back to ${named}${others}.${staying}`
}
