import type { ApiError, Session } from '../../src/api/types.ts'
import { session } from './session.ts'

/** A request that the server refused, or that did not reach it. The message is for people. */
class RequestError extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** An address below the page's own, wherever the dashboard is mounted. */
export function apiUrl(path: string): string {
  return new URL(`api/${path}`, document.baseURI).href
}

export function storePath(store: string, rest: string): string {
  return `stores/${encodeURIComponent(store)}/${rest}`
}

export function letterPath(name: string, rest: string): string {
  return `dead-letters/${encodeURIComponent(name)}/${rest}`
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return await request<T>(path, { signal: signal ?? null })
}

export async function postJson<T>(path: string, body: unknown): Promise<T> {
  const send = () =>
    request<T>(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-ackord-csrf': session.value?.csrf ?? '' },
      body: JSON.stringify(body),
    })
  try {
    return await send()
  } catch (error) {
    // The server has restarted since the page was opened: it refused the request before doing anything.
    if (!(error instanceof RequestError && error.code === 'csrf')) throw error
    session.value = await getJson<Session>('session')
    return await send()
  }
}

/** The text to show for a failed request. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

async function request<T>(path: string, init: RequestInit): Promise<T> {
  const response = await fetch(apiUrl(path), { ...init, headers: { accept: 'application/json', ...init.headers } }).catch(
    (error: unknown) => {
      if (init.signal?.aborted) throw error
      throw new RequestError('unreachable', 'The server cannot be reached. Check that it runs and that you are connected to it.')
    },
  )
  // A proxy may answer with a page of its own.
  const content: unknown = await response.json().catch(() => undefined)
  if (response.ok && content !== undefined) return content as T
  const { code = 'unknown', message = statusText(response.status) } = (content as Partial<ApiError> | undefined)?.error ?? {}
  throw new RequestError(code, message)
}

function statusText(status: number): string {
  if (status === 401 || status === 403) return 'The server does not let you see this. Sign in again, or ask for the right.'
  return `The server answered with the status ${status} and without an explanation.`
}
