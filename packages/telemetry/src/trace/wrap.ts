/**
 * The same object with some of its members replaced. A proxy, because a source, a publisher or a store may have private fields, getters and methods that only its own
 * package knows.
 */
export function wrap<Target extends object>(target: Target, replaced: Partial<Target>): Target {
  const members: Partial<Record<PropertyKey, unknown>> = replaced
  const bound = new Map<PropertyKey, { readonly method: unknown; readonly bound: unknown }>()
  return new Proxy(target, {
    get(_, name) {
      if (Object.hasOwn(members, name)) return members[name]
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      const known = bound.get(name)
      if (known !== undefined && known.method === member) return known.bound
      const method = member.bind(target)
      bound.set(name, { method: member, bound: method })
      return method
    },
  })
}
