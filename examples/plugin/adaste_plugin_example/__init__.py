"""Classes of one's own in recipes of adaste. adaste imports these modules when a recipe names what they hold."""
