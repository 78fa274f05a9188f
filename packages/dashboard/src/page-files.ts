import { readdir, readFile } from 'node:fs/promises'
import { ApiFailure, notFound } from './http/api-failure.ts'
import { respond } from './http/responses.ts'

interface PageFile {
  readonly content: Uint8Array<ArrayBuffer>
  readonly headers: Readonly<Record<string, string>>
}

const types: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  ico: 'image/x-icon',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
  txt: 'text/plain; charset=utf-8',
  webmanifest: 'application/manifest+json',
  woff2: 'font/woff2',
}

/** Vite puts a hash of the content into the names of assets. */
const hashedName = /^assets\/.*-[\w-]{8}\.\w+$/

/** The static files of the page. They contain no data, and are served without authorization. */
export class PageFiles {
  readonly #folder: URL
  #files: Promise<ReadonlyMap<string, PageFile>> | undefined

  constructor(folder: URL = new URL('../dist-page/', import.meta.url)) {
    this.#folder = folder
  }

  /** `path`: below the base path, without a slash in front. A path is only compared with the names of the files that exist. */
  async respond(method: string, path: string): Promise<Response> {
    const file = (await this.#read()).get(path === '' ? 'index.html' : path)
    if (file === undefined) throw notFound('There is no such file.')
    if (method !== 'GET' && method !== 'HEAD')
      throw new ApiFailure(405, 'method', 'Files accept only GET and HEAD.', { allow: 'GET, HEAD' })
    return respond(200, method === 'HEAD' ? null : file.content, file.headers)
  }

  async #read(): Promise<ReadonlyMap<string, PageFile>> {
    this.#files ??= readFiles(this.#folder)
    try {
      return await this.#files
    } catch {
      this.#files = undefined
      throw new ApiFailure(503, 'not_built', 'The page of the dashboard was not built. Run the build of @ackord/dashboard, then reload.')
    }
  }
}

async function readFiles(folder: URL): Promise<ReadonlyMap<string, PageFile>> {
  const files = new Map<string, PageFile>()
  for (const name of await readdir(folder, { recursive: true })) {
    const path = name.replaceAll('\\', '/')
    const type = types[path.slice(path.lastIndexOf('.') + 1)]
    // Folders, and files that are not for browsers.
    if (type === undefined) continue
    const headers = { 'content-type': type, ...(hashedName.test(path) && { 'cache-control': 'public, max-age=31536000, immutable' }) }
    files.set(path, { content: new Uint8Array(await readFile(new URL(path, folder))), headers })
  }
  if (!files.has('index.html')) throw new Error('There is no index.html.')
  return files
}
