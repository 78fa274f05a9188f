import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, extname, resolve } from 'node:path'
import { usageError } from '../output/errors.ts'

export interface LoadedConfig {
  /** The file name without its directory. */
  readonly name: string
  readonly values: Readonly<Record<string, unknown>>
}

const names = ['ackord.config.ts', 'ackord.config.mts', 'ackord.config.js', 'ackord.config.mjs', 'ackord.config.json']

/** The named file, or the one in this directory; `undefined` if there is none. */
export async function loadConfig(named: string | undefined): Promise<LoadedConfig | undefined> {
  const path = named === undefined ? findConfig() : resolve(named)
  if (path === undefined) return undefined
  if (!existsSync(path)) throw usageError(`The configuration file ${path} does not exist.`, 'Check --config.')
  const name = basename(path)
  const content = extname(path) === '.json' ? await readJson(path) : await importFile(path)
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    throw usageError(`${name} does not export an object of options.`, "Write: export default defineConfig({ store: '…' })")
  }
  return { name, values: content as Record<string, unknown> }
}

function findConfig(): string | undefined {
  const found = names.filter((name) => existsSync(name))
  if (found.length > 1)
    throw usageError(`There is more than one configuration file: ${found.join(', ')}.`, 'Keep one, or name it: --config')
  return found[0] === undefined ? undefined : resolve(found[0])
}

// A parser's message may quote a part of the file, and such files contain URLs with passwords: only the position is reported.

async function readJson(path: string): Promise<unknown> {
  const text = await readFile(path, 'utf8')
  try {
    return JSON.parse(text)
  } catch (error) {
    const [, position] = /position (\d+)/.exec(error instanceof Error ? error.message : '') ?? []
    const line = position === undefined ? '' : `, line ${text.slice(0, Number(position)).split('\n').length}`
    throw usageError(`${basename(path)} is not valid JSON${line}.`)
  }
}

async function importFile(path: string): Promise<unknown> {
  const { createJiti } = await import('jiti')
  // Nothing is written to a cache on disk, for the same reason.
  const jiti = createJiti(import.meta.url, { fsCache: false })
  try {
    return await jiti.import(path, { default: true })
  } catch (error) {
    const { name, location } = positionOf(error, path)
    throw usageError(`${basename(path)} cannot be loaded: ${name}${location}.`, `Try: node --check ${basename(path)}`)
  }
}

function positionOf(error: unknown, path: string): { readonly name: string; readonly location: string } {
  if (!(error instanceof Error)) return { name: 'it throws a value that is not an error', location: '' }
  const text = `${error.message}\n${error.stack ?? ''}`
  const [, line] =
    text
      .split(basename(path))
      .slice(1)
      .map((rest) => /^:(\d+)/.exec(rest))
      .find((found) => found !== null) ?? []
  const [, missing] = /Cannot find (?:module|package) '([^']+)'/.exec(error.message) ?? []
  return {
    name: missing === undefined ? error.name : `it imports '${missing}', which is not installed`,
    location: line === undefined ? '' : `, line ${line}`,
  }
}
