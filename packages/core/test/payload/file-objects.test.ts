import { existsSync } from 'node:fs'
import { lstat, mkdir, mkdtemp, open, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { claimKey, claimName } from '../../src/payload/claim-key.ts'
import { collectObjects } from '../../src/payload/collect-objects.ts'
import { fileObjects } from '../../src/payload/file-objects.ts'
import type { StoredObject } from '../../src/payload/object-store.ts'
import { deferred } from '../support/router-world.ts'

const { signal } = new AbortController()
const bytes = new TextEncoder().encode('the data')

async function openDirectory() {
  const directory = await mkdtemp(join(tmpdir(), 'ackord-files-'))
  return {
    directory,
    store: fileObjects(directory),
    /** All files and directories. */
    files: async () => (await readdir(directory, { recursive: true })).toSorted(),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true }),
  }
}

async function listed(store: ReturnType<typeof fileObjects>): Promise<string[]> {
  const found: StoredObject[] = []
  for await (const object of store.list({ olderThan: new Date('9999-01-01') })) found.push(object)
  return found.map(({ key }) => key).toSorted()
}

/** The class of file handles, whose methods a test observes. */
async function fileHandles(directory: string) {
  const handle = await open(directory, 'r')
  await handle.close()
  return Object.getPrototypeOf(handle) as typeof handle
}

describe('fileObjects()', () => {
  it('creates its directory with the first object, for the user of the process only', async () => {
    await using world = await openDirectory()
    const directory = join(world.directory, 'not', 'there')
    const store = fileObjects(directory)
    expect(await listed(store)).toEqual([])
    await store.put('orders/1', bytes, { signal })
    expect(await store.get('orders/1', { signal })).toEqual(Buffer.from(bytes))
    const modes = await Promise.all([directory, join(directory, 'orders'), join(directory, 'orders', '1')].map((path) => stat(path)))
    expect(modes.map(({ mode }) => mode & 0o777)).toEqual([0o700, 0o700, 0o600])
  })

  it('rejects an invalid directory', () => {
    expect(() => fileObjects('')).toThrow(expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', option: 'directory' }))
  })

  it('does not call an object absent while its directory is missing, as that of a volume that is not mounted', async () => {
    await using world = await openDirectory()
    const store = fileObjects(join(world.directory, 'unmounted'))
    await expect(store.get('orders/1', { signal })).rejects.toMatchObject({ code: 'ENOENT' })
    await mkdir(join(world.directory, 'unmounted'))
    expect(await store.get('orders/1', { signal })).toBeUndefined()
  })

  it('writes the file to the disk before it gets its name, and its directories afterwards', async () => {
    await using world = await openDirectory()
    const target = join(world.directory, 'orders/2026/1')
    const handles = await fileHandles(world.directory)
    const sync = handles.sync
    const named: boolean[] = []
    const observed = vi.spyOn(handles, 'sync').mockImplementation(function (this: typeof handles) {
      named.push(existsSync(target))
      return sync.call(this)
    })
    try {
      await world.store.put('orders/2026/1', bytes, { signal })
      // The file, then 2026, orders and the directory that orders was created in.
      expect(named.splice(0)).toEqual([false, true, true, true])
      await world.store.put('orders/2026/2', bytes, { signal })
      expect(named.splice(0)).toEqual([true, true, true, true])
      await fileObjects(join(world.directory, 'not', 'there')).put('orders/1', bytes, { signal })
      // The file, then orders, there, not and the directory that not was created in.
      expect(named).toHaveLength(5)
    } finally {
      observed.mockRestore()
    }
  })

  it.each(['writeFile', 'sync'] as const)('leaves no file behind when the disk refuses it: %s', async (method) => {
    await using world = await openDirectory()
    const full = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    const refusal = vi.spyOn(await fileHandles(world.directory), method).mockRejectedValueOnce(full)
    try {
      await expect(world.store.put('orders/1', bytes, { signal })).rejects.toBe(full)
    } finally {
      refusal.mockRestore()
    }
    expect(await world.files()).toEqual(['orders'])
    await world.store.put('orders/1', bytes, { signal })
    expect(await world.files()).toEqual(['orders', 'orders/1'])
  })

  it('stores nothing when a put is aborted while its file reaches the disk', async () => {
    await using world = await openDirectory()
    const abort = new AbortController()
    const reason = new Error('too late')
    const handles = await fileHandles(world.directory)
    const slow = vi.spyOn(handles, 'sync').mockImplementationOnce(async () => abort.abort(reason))
    try {
      await expect(world.store.put('orders/1', bytes, { signal: abort.signal })).rejects.toBe(reason)
    } finally {
      slow.mockRestore()
    }
    expect(await world.files()).toEqual(['orders'])
  })

  it('leaves no file behind when a put is aborted, or cannot get its name', async () => {
    await using world = await openDirectory()
    const abort = new AbortController()
    const reason = new Error('too late')
    const putting = world.store.put('orders/1', new Uint8Array(3_000_000), { signal: abort.signal })
    abort.abort(reason)
    await expect(putting).rejects.toBe(reason)
    await mkdir(join(world.directory, 'orders/2/more'), { recursive: true })
    await expect(world.store.put('orders/2', bytes, { signal })).rejects.toMatchObject({ syscall: 'rename' })
    expect(await world.files()).toEqual(['orders', 'orders/2', 'orders/2/more'])
  })

  it('does not follow symbolic links in place of files, and replaces them', async () => {
    await using world = await openDirectory()
    await using elsewhere = await openDirectory()
    const secret = join(elsewhere.directory, 'secret')
    await writeFile(secret, 'another file')
    await symlink(secret, join(world.directory, 'link'))
    await symlink(elsewhere.directory, join(world.directory, 'folder'))
    expect(await world.store.get('link', { signal })).toBeUndefined()
    expect(await listed(world.store)).toEqual([])
    await world.store.put('link', bytes, { signal })
    expect((await lstat(join(world.directory, 'link'))).isFile()).toBe(true)
    expect(await readFile(secret, 'utf8')).toBe('another file')
    await world.store.delete(['link'])
    expect(await elsewhere.files()).toEqual(['secret'])
  })

  it('lists no files whose names are not keys', async () => {
    await using world = await openDirectory()
    await world.store.put('orders/1', bytes, { signal })
    for (const name of ['.hidden', 'with space', 'orders/.part', 'caf\u00e9']) await writeFile(join(world.directory, name), bytes)
    const deep = Array.from({ length: 5 }, () => 'x'.repeat(120)).join('/')
    await mkdir(join(world.directory, deep), { recursive: true })
    await writeFile(join(world.directory, deep, 'file'), bytes)
    expect(await listed(world.store)).toEqual(['orders/1'])
  })

  it('lists the files that a crash has left, so that they are collected by age', async () => {
    await using world = await openDirectory()
    const handles = await fileHandles(world.directory)
    const resume = deferred<void>()
    const suspended = vi.spyOn(handles, 'sync').mockReturnValue(resume.promise)
    const longAgo = new Date(Date.now() - 3 * 86_400_000)
    const name = claimKey('x'.repeat(89), longAgo.getTime(), claimName('/shop', 'o1', '0'.repeat(64)))
    expect(name).toHaveLength(200)
    const putting = world.store.put(`orders/${name}`, bytes, { signal })
    await vi.waitFor(() => expect(suspended).toHaveBeenCalled())
    suspended.mockRestore()
    // What a crash at this point would leave.
    const [key = ''] = await listed(world.store)
    expect(key).toMatch(/^orders\/x{39}\d{4}-\d\d-\d\dT\d\d-[0-9a-f]{32}-0{64}\.[0-9a-f-]{36}\.part$/)
    await utimes(join(world.directory, key), longAgo, longAgo)
    await world.store.put('orders/1', bytes, { signal })
    expect(await collectObjects({ store: world.store, olderThan: 2 * 86_400_000, keyPrefix: 'orders/' })).toBe(1)
    expect(await listed(world.store)).toEqual(['orders/1'])
    resume.resolve()
    await expect(putting).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it('lists the file that a crash has left of a name whose last 150 characters begin with a dot', async () => {
    await using world = await openDirectory()
    const handles = await fileHandles(world.directory)
    const resume = deferred<void>()
    const suspended = vi.spyOn(handles, 'sync').mockReturnValue(resume.promise)
    const putting = world.store.put(`x.${'y'.repeat(149)}`, bytes, { signal })
    await vi.waitFor(() => expect(suspended).toHaveBeenCalled())
    suspended.mockRestore()
    expect(await listed(world.store)).toEqual([expect.stringMatching(/^_y{149}\.[0-9a-f-]{36}\.part$/)])
    resume.resolve()
    await putting
    expect(await world.files()).toEqual([`x.${'y'.repeat(149)}`])
  })

  it('reports a directory that is a file', async () => {
    await using world = await openDirectory()
    await writeFile(join(world.directory, 'file'), '')
    const store = fileObjects(join(world.directory, 'file'))
    await expect(store.put('orders/1', bytes, { signal })).rejects.toMatchObject({ code: expect.stringMatching(/^(ENOTDIR|EEXIST)$/) })
  })
})
