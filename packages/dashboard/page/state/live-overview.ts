import { signal } from '@preact/signals'
import type { Overview, StoreOverview } from '../../src/api/types.ts'
import { apiUrl, errorText, getJson } from './api.ts'

export const overview = signal<Overview | undefined>(undefined)

/** `live`: by server-sent events. `polling`: by a request every two seconds. */
export const connection = signal<{ readonly state: 'connecting' | 'live' | 'polling' | 'lost'; readonly problem?: string }>({
  state: 'connecting',
})

/** Milliseconds since the epoch by the browser's clock, every second while the page is visible. */
const clock = signal(Date.now())

export function storeOverview(store: string): StoreOverview | undefined {
  return overview.value?.stores.find((each) => each.store === store)
}

/** How far the clock of the server, which is near that of its stores, is ahead of the browser's. */
const clockOffsets = new Map<string, number>()

/** The present by the clock of a store. */
export function storeTime(store: string): number {
  return clock.value + (clockOffsets.get(store) ?? 0)
}

const pollInterval = 2000
/** Polls before the page asks for events again. */
const pollsBeforeEvents = 15

/** Keeps the overview up to date while the page is visible. */
export function followOverview(): void {
  let stop = start()
  const ticks = setInterval(tick, 1000)
  document.addEventListener('visibilitychange', () => {
    stop()
    stop = document.hidden ? () => {} : start()
    tick()
  })
  addEventListener('pagehide', () => {
    stop()
    clearInterval(ticks)
  })
}

function tick(): void {
  if (!document.hidden) clock.value = Date.now()
}

function start(): () => void {
  let polling: ReturnType<typeof setTimeout> | undefined
  let polls = 0
  let stopped = false
  let events = listen()

  function listen(): EventSource {
    const source = new EventSource(apiUrl('events'))
    source.addEventListener('overview', (event: MessageEvent<string>) => {
      clearTimeout(polling)
      polling = undefined
      show(JSON.parse(event.data) as Overview, 'live')
    })
    source.addEventListener('error', () => {
      if (polling === undefined && !stopped) polling = setTimeout(poll, 0)
    })
    return source
  }

  async function poll(): Promise<void> {
    try {
      const next = await getJson<Overview>('overview')
      if (!stopped && polling !== undefined) show(next, 'polling')
    } catch (error) {
      if (!stopped) connection.value = { state: 'lost', problem: errorText(error) }
    }
    if (stopped || polling === undefined) return
    polls += 1
    if (polls % pollsBeforeEvents === 0 && events.readyState === EventSource.CLOSED) events = listen()
    polling = setTimeout(poll, pollInterval)
  }

  return () => {
    stopped = true
    events.close()
    clearTimeout(polling)
  }
}

function show(next: Overview, state: 'live' | 'polling'): void {
  clock.value = Date.now()
  for (const { store, at, error } of next.stores) if (error === undefined) clockOffsets.set(store, at - clock.value)
  overview.value = next
  connection.value = { state }
}
