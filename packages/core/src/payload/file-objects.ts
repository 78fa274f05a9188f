import { constants, type Dir } from 'node:fs'
import { access, type FileHandle, mkdir, open, opendir, rename, rm, stat, unlink } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { checkName } from '../options.ts'
import { systemRuntime } from '../ports/runtime.ts'
import { checkObjectKey, isObjectKey, type ObjectStore, ObjectTooLargeError, type StoredObject } from './object-store.ts'

/**
 * An object store in a directory, which is created by the first `put()` if it is missing. For one machine, or for a shared file system that renames atomically and whose clock is that
 * of its readers. A file appears complete and durable, or not at all; a crash while it is written leaves a file that ends with `.part`, which `collectObjects()` deletes.
 * The directory may contain other files: those whose names are valid keys are listed, but not collected.
 *
 * Files and directories are accessible to the user of the process only. Do not put symbolic links into the directory: they are not listed, and those in place of files
 * are not followed.
 */
export function fileObjects(directory: string): ObjectStore {
  const root = resolve(checkName('directory', directory))
  const pathOf = (key: string) => join(root, checkObjectKey(key))

  async function* walk(folder: string, prefix: string, olderThan: Date): AsyncGenerator<StoredObject, void, void> {
    const directory = await openFolder(folder)
    if (directory === undefined) return
    for await (const entry of directory) {
      const path = join(folder, entry.name)
      const key = `${prefix}${entry.name}`
      // Files with other names are not of this store, which cannot delete them.
      if (!isObjectKey(key)) continue
      if (entry.isDirectory()) yield* walk(path, `${key}/`, olderThan)
      else if (entry.isFile()) {
        const storedAt = await modifiedAt(path)
        if (storedAt !== undefined && storedAt < olderThan) yield { key, storedAt }
      }
    }
  }

  return {
    async put(key, bytes, { signal }) {
      const path = pathOf(key)
      const folder = dirname(path)
      // An object key, too, with the end of the name of the object, by which `collectObjects()` recognises it if it is left over.
      const end = basename(path).slice(-150).replace(/^\./, '_')
      const temporary = join(folder, `${end}.${systemRuntime.uuid()}.part`)
      signal.throwIfAborted()
      const created = await mkdir(folder, { recursive: true, mode: 0o700 })
      try {
        await writeDurably(temporary, bytes, signal)
        signal.throwIfAborted()
        await rename(temporary, path)
      } catch (error) {
        // Its failure would hide the first one. `collectObjects()` deletes the file.
        await rm(temporary, { force: true }).catch(() => {})
        throw signal.aborted ? signal.reason : error
      }
      await syncFolders(folder, created === undefined ? root : dirname(created))
    },

    async get(key, { signal, maxBytes }) {
      const path = pathOf(key)
      signal.throwIfAborted()
      const handle = await openToRead(path)
      if (handle === undefined) {
        // If the directory is missing, the store cannot say which objects exist: a volume may not be mounted.
        await access(root)
        return undefined
      }
      try {
        const found = await handle.stat()
        if (!found.isFile()) return undefined
        if (maxBytes !== undefined && found.size > maxBytes) throw new ObjectTooLargeError(key, found.size, maxBytes)
        return await handle.readFile({ signal })
      } catch (error) {
        throw signal.aborted ? signal.reason : error
      } finally {
        await handle.close()
      }
    },

    async delete(keys) {
      for (const path of keys.map(pathOf)) {
        try {
          await unlink(path)
        } catch (error) {
          if (!isMissing(error)) throw error
        }
      }
    },

    list: ({ olderThan }) => walk(root, '', olderThan),
  }
}

async function writeDurably(path: string, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
  const handle = await open(path, 'wx', 0o600)
  try {
    await handle.writeFile(bytes, { signal })
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** A renamed file survives a power failure only if its directory was written, too, and so on up to the first one that was there before. */
async function syncFolders(folder: string, last: string): Promise<void> {
  for (let path = folder, child = ''; path !== child; child = path, path = dirname(path)) {
    await syncFolder(path)
    if (relative(path, last) === '') return
  }
}

async function syncFolder(path: string): Promise<void> {
  let handle: FileHandle
  try {
    handle = await open(path, 'r')
  } catch (error) {
    // Windows opens no directories, and a directory above the store may be closed to this process.
    if (hasCode(error, 'EISDIR', 'EPERM', 'EACCES')) return
    throw error
  }
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function openToRead(path: string): Promise<FileHandle | undefined> {
  try {
    // `list()` has no symbolic links either. Windows has no such flag.
    return await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0))
  } catch (error) {
    if (isMissing(error) || hasCode(error, 'ELOOP')) return undefined
    throw error
  }
}

async function openFolder(folder: string): Promise<Dir | undefined> {
  try {
    return await opendir(folder)
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

async function modifiedAt(path: string): Promise<Date | undefined> {
  try {
    return (await stat(path)).mtime
  } catch (error) {
    // Deleted meanwhile.
    if (isMissing(error)) return undefined
    throw error
  }
}

/** Also if a part of the path is a file, or the path is a directory: then there is no such object. */
function isMissing(error: unknown): boolean {
  return hasCode(error, 'ENOENT', 'ENOTDIR', 'EISDIR')
}

function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}
