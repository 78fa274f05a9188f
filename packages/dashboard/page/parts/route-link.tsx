import type { ComponentChildren, VNode } from 'preact'
import { formatRoute, type Route } from '../state/route.ts'

interface RouteLinkProps {
  readonly to: Route
  readonly children: ComponentChildren
  readonly class?: string | undefined
  readonly title?: string | undefined
  readonly current?: 'page' | 'true' | undefined
}

export function RouteLink({ to, children, current, ...rest }: RouteLinkProps): VNode {
  return (
    <a href={formatRoute(to)} aria-current={current} {...rest}>
      {children}
    </a>
  )
}
