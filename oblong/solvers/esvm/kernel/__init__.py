"""The ellipsoidal SVM in kernel form, by its dual."""
