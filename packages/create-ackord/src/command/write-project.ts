import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { InvalidChoiceError } from '../choices/invalid-choice-error.ts'

/** Files that may be there before a project is: of git, and of the systems. */
const ignored = ['.git', '.DS_Store']

/** Rejects a directory that has files already, so that none is lost. */
export function checkDirectory(directory: string, { force }: { readonly force: boolean }): void {
  const found = force ? [] : entriesOf(directory).filter((name) => !ignored.includes(name))
  if (found.length === 0) return
  const shown = found.slice(0, 3).join(', ')
  const more = found.length > 3 ? ` and ${found.length - 3} more` : ''
  throw new InvalidChoiceError(
    `The directory '${directory}' is not empty: it has ${shown}${more}. Choose another one, or --force to write into it; files of the same names are replaced.`,
  )
}

export function writeProject(directory: string, files: ReadonlyMap<string, string>): void {
  for (const [path, content] of files) {
    const file = join(directory, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, content)
  }
}

function entriesOf(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return []
    if (code === 'ENOTDIR') throw new InvalidChoiceError(`'${directory}' is a file, not a directory.`)
    throw error
  }
}
