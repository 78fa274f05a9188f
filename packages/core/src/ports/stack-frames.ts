/** Which frames of a stack are shown: all, or those that are neither Ackord's nor Node's. */
export type Frames = 'all' | 'foreign'

/** The lines of an error's stack, without its name and message. If there are only frames of Ackord and Node, `foreign` has the first two, for a bug report. */
export function framesOf(error: Error, frames: Frames): readonly string[] {
  const stack = stackTextOf(error)
  if (stack === undefined) return []
  const header = headerAsWritten(error)
  const rest = stack.startsWith(header) ? stack.slice(header.length) : stack
  const lines = rest.split('\n').filter((line) => /^\s+at /.test(line))
  const all = lines.map((line) => line.trim())
  if (frames === 'all') return all
  const foreign = all.filter((line) => !isOwnFrame(line))
  return foreign.length > 0 ? foreign : all.slice(0, 2)
}

/** A getter may throw, which must not prevent the log line. */
function stackTextOf(error: Error): string | undefined {
  try {
    const stack: unknown = error.stack
    return typeof stack === 'string' ? stack : undefined
  } catch {
    return undefined
  }
}

function headerAsWritten({ name, message }: Error): string {
  return message === '' ? name : `${name}: ${message}`
}

/** Installed packages, wherever the package manager puts them. The command is the package `ackord`. */
const installed = /\/node_modules\/(?:@ackord|ackord)\//
const ofNode = /[( ]node:/

/** Whether a line of a stack, such as `at run (file:///app/main.js:1:2)`, is in a file of Ackord or in Node itself. */
export function isOwnFrame(line: string, folders: readonly string[] = ownFolders): boolean {
  const shown = line.replaceAll('\\', '/')
  return ofNode.test(shown) || installed.test(shown) || folders.some((folder) => isInPackage(shown, folder))
}

function isInPackage(line: string, folder: string): boolean {
  const start = line.indexOf(folder)
  return start !== -1 && /^[^/]+\/(?:src|dist)\//.test(line.slice(start + folder.length))
}

/**
 * The folder with Ackord's packages, as paths and as URLs write it, by the URL or the path of this file: for packages that are linked from a checkout. None if this file was
 * bundled: then its folder is the application's.
 */
export function packagesFolders(url: unknown): readonly string[] {
  const [, folder] = /^(?:file:\/\/)?(\/.*\/)core\/(?:src|dist)\/ports\/stack-frames\.[jt]s(?:\?.*)?$/.exec(String(url)) ?? []
  if (folder === undefined) return []
  // A path on Windows has no slash in front of the drive.
  const path = folder.replace(/^\/(?=[A-Za-z]:)/, '')
  return [path, decodeURI(path)]
}

// From a stack, because tools that compile packages to CommonJS, such as ts-jest, cannot translate `import.meta`.
const [, ownFile] = /(?:\(|at )((?:file:\/\/)?\/.*?\/stack-frames\.[jt]s)/.exec(new Error().stack ?? '') ?? []
const ownFolders = packagesFolders(ownFile)
