import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { type Attributes, Message, type PublishFailure } from '@ackord/core'
import { MemoryOutboxStore, type MemoryOutboxStoreOptions, Relay, type RelayEvent, type RelayOptions } from '@ackord/outbox'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'
import { recordingLogger } from '../../../core/test/support/recording-logger.ts'
import { allowEverybody, createDashboard, type DashboardOptions, type DeadLetter } from '../../src/index.ts'

/** For the tests of a file: builds the page, if its sources have changed, and starts a browser. */
export function useBrowser(): { open(options?: BrowserWorldOptions): Promise<BrowserWorld> } {
  let browser: Browser | undefined
  beforeAll(async () => {
    buildPage()
    browser = await openBrowser()
  }, 120_000)
  afterAll(async () => {
    await browser?.close()
  })
  return {
    /** A world whose page must have done nothing forbidden by the end of the test. */
    async open(options) {
      if (browser === undefined) throw new Error('The browser has not been started.')
      const world = await BrowserWorld.open(browser, options)
      onTestFinished(async () => {
        await world[Symbol.asyncDispose]()
        expect(world.problems).toEqual([])
      })
      return world
    },
  }
}

export function buildPage(): void {
  execFileSync(process.execPath, [fileURLToPath(new URL('../../../../scripts/dashboard-page.mjs', import.meta.url))], { stdio: 'pipe' })
}

export async function openBrowser(): Promise<Browser> {
  const args = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run']
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync']
  return await chromium.launch({ executablePath: '/usr/bin/chromium', args: [...args, ...quiet] })
}

export interface BrowserWorldOptions extends Partial<Omit<DashboardOptions, 'stores'>> {
  readonly store?: MemoryOutboxStoreOptions
  readonly context?: BrowserContextOptions
}

/** A dashboard of one store, a relay for it, and a browser that looks at the dashboard. */
export class BrowserWorld implements AsyncDisposable {
  readonly store: MemoryOutboxStore
  readonly page: Page
  readonly url: string
  /** What the page must not do: errors of its code, violations of the content security policy, requests to other hosts. */
  readonly problems: string[] = []
  /** Failures of messages by their ids. Other messages are published. */
  readonly failures = new Map<string, PublishFailure>()
  /** Ids of published messages. */
  readonly published: string[] = []
  /** Ends the connections of the browser, and accepts no others. */
  readonly stopServer: () => Promise<void>
  readonly #close: () => Promise<void>
  #relay: Relay | undefined

  private constructor(
    store: MemoryOutboxStore,
    page: Page,
    url: string,
    parts: { readonly stopServer: () => Promise<void>; readonly close: () => Promise<void> },
  ) {
    this.store = store
    this.page = page
    this.url = url
    this.stopServer = parts.stopServer
    this.#close = parts.close
    page.on('pageerror', (error) => this.problems.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) this.problems.push(message.text())
    })
    page.on('request', (request) => {
      if (!request.url().startsWith(url)) this.problems.push(`A request to ${request.url()}`)
    })
  }

  static async open(browser: Browser, options: BrowserWorldOptions = {}): Promise<BrowserWorld> {
    const { store: storeOptions, context: contextOptions, ...dashboardOptions } = options
    const store = new MemoryOutboxStore({ source: '/shop', ...storeOptions })
    const dashboard = createDashboard({
      stores: { orders: store },
      authorize: allowEverybody(),
      logger: recordingLogger(),
      ...dashboardOptions,
    })
    const server = createServer((request, response) => dashboard.node(request, response)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const context = await browser.newContext(contextOptions)
    let stopping: Promise<void> | undefined
    const stopServer = () => {
      stopping ??= closeServer(server)
      return stopping
    }
    const close = async () => {
      await context.close()
      await dashboard.close()
      await stopServer()
    }
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    return new BrowserWorld(store, await context.newPage(), url, { stopServer, close })
  }

  async add(destination: string, data: unknown, attributes: Attributes = {}): Promise<void> {
    const transaction = this.store.begin()
    await this.store.append(transaction, { destination, message: new Message(data, { type: 'order.placed', ...attributes }) })
    transaction.commit()
  }

  startRelay(options: Partial<RelayOptions> = {}): void {
    const publisher: RelayOptions['publisher'] = {
      publish: async (_destination, messages) =>
        messages.map((message) => {
          const failure = this.failures.get(message.id ?? '')
          if (failure !== undefined) return failure
          this.published.push(message.id ?? '')
          return { ok: true }
        }),
    }
    this.#relay = new Relay(this.store, { publisher, pollInterval: 20, maxPollInterval: 20, logger: recordingLogger(), ...options }).start()
  }

  async stopRelay(): Promise<void> {
    await this.#relay?.stop()
  }

  /** Adds records that a relay parks with these errors, and stops the relay. */
  async addParked(
    records: readonly {
      readonly id: string
      readonly error: string
      readonly destination?: string
      readonly data?: unknown
      readonly attributes?: Attributes
    }[],
  ): Promise<void> {
    for (const { id, error, destination = 'billing', data = { id }, attributes } of records) {
      this.failures.set(id, { ok: false, permanent: true, error: new Error(error) })
      await this.add(destination, data, { id, ...attributes })
    }
    let parked = 0
    await new Promise<void>((resolve) => {
      const onEvent = ({ type }: RelayEvent) => {
        if (type === 'parked' && ++parked === records.length) resolve()
      }
      this.startRelay({ onEvent })
    })
    await this.stopRelay()
    this.failures.clear()
  }

  async goTo(hash: string): Promise<void> {
    await this.page.goto(`${this.url}${hash}`)
    await this.page.locator('h1').waitFor()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopRelay()
    await this.#close()
  }
}

/** Gives a reason in the open dialog, confirms it, and closes it after its result. */
export async function confirm(page: Page, verb: string, result: string): Promise<void> {
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('broker is back')
  await dialog.getByRole('button', { name: verb, exact: true }).click()
  await dialog.getByText(result).waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
  await dialog.waitFor({ state: 'detached' })
}

/** A dead letter of a message with this id. */
export function letterOf(id: string): DeadLetter {
  const message = new Message(new TextEncoder().encode(JSON.stringify({ id })), { id, type: 'order.placed' })
  return { position: `at ${id}`, message, origin: 'orders', reason: 'expired', failedAt: Date.now() - 60_000, problem: undefined }
}

/** A record for `addParked()`. */
export const refused = { id: 'm-1', error: 'connect ECONNREFUSED 127.0.0.1:5672' }

async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
}
